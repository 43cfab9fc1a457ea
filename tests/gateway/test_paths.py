"""Paths: read as an engine reads them, and judged as such."""

from __future__ import annotations

import pytest

from pdctl.gateway.paths import not_passed, place_of

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("target", "path", "sent"),
    [
        (CHAT, CHAT, CHAT),
        ("/v1/chat/completions?a=%2F", CHAT, "/v1/chat/completions?a=%2F"),
        ("/v1/chat/%63ompletions?a=1", CHAT, "/v1/chat/completions?a=1"),
        ("/%761/chat%2Fcompletions", CHAT, CHAT),
        ("http://host:1/v1/chat/completions?a", CHAT, "/v1/chat/completions?a"),
        ("HTTPS://host/v1/files%20x", "/v1/files x", "/v1/files%20x"),
        ("http://host", "/", "/"),
        ("http://host?x", "/", "/?x"),
        ("*", "/*", "/*"),
        ("host:443", "/host:443", "/host:443"),
    ],
)
def test_a_target_names_one_place(target: str, path: str, sent: str) -> None:
    assert place_of(target) == (path, sent)


@pytest.mark.parametrize(
    "target",
    [
        "/%73leep", "/sleep", "/v1/%2e%2e/sleep", "/v1/..%2fsleep", "/v1%2f%2fsleep", "/v1/x%00",
        "/v1/completions%3Fx", "/v1/completions#x", "/v1/completions%23x", "/v1/%252e%252e/sleep",
        "/v1/%5c..%5csleep", "/v1/..;/sleep", "/v1/a;b", "http://host/collective_rpc", "*",
        "/V1/completions", "/inference/v1/generate", "/v1", "/tokenize/",
    ],
)  # fmt: skip
def test_what_an_engine_could_read_otherwise_stays_here(target: str) -> None:
    mistake = not_passed(place_of(target).path)
    assert mistake is not None
    assert mistake.status == 404


@pytest.mark.parametrize(
    "target",
    [
        "/v1/load_lora_adapter", "/v1/%6coad_lora_adapter", "/v1/load_lora_adapter/",
        "/v1/unload_lora_%61dapter", "http://host/v1/unload_lora_adapter",
    ],
)  # fmt: skip
def test_one_engine_is_not_changed_alone(target: str) -> None:
    mistake = not_passed(place_of(target).path)
    assert mistake is not None
    assert mistake.status == 501


@pytest.mark.parametrize("target", ["/v1/embeddings", "/tokenize", "/v1/responses/resp_1-a/cancel"])
def test_the_public_surface_passes(target: str) -> None:
    assert not_passed(place_of(target).path) is None
