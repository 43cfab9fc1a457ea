"""Bad requests: each with its status, its words and its parameter, in OpenAI's envelope."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.gateway.conftest import Rogues
from tests.gateway.desk import CHAT, COMPLETIONS, RESPONSES, Desk

from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode

JSON = "application/json"
USER = [{"role": "user", "content": "x"}]


@dataclass(frozen=True)
class Bad:
    """A request and what must be said about it."""

    name: str
    body: Any
    says: str
    param: str | None = None
    status: int = 400
    path: str = COMPLETIONS
    media: str = JSON


def completion(name: str, says: str, param: str | None = None, **fields: Any) -> Bad:
    return Bad(name, {"model": "tiny", "prompt": "x", **fields}, says, param)


def chat(name: str, says: str, param: str, **fields: Any) -> Bad:
    body = {"model": "tiny", "messages": USER, **fields}
    return Bad(name, body, says, param, path=CHAT)


BAD = [
    Bad("empty", b"", "not valid JSON"),
    Bad("no-json", b"hello", "not valid JSON"),
    Bad("half-json", b'{"model": "tiny", ', "not valid JSON"),
    Bad("nan", b'{"prompt": NaN}', "not valid JSON"),
    Bad("broken-utf8", b'{"prompt": "\xff"}', "not valid JSON"),
    Bad("trailing", b"{} {}", "not valid JSON"),
    Bad("bottomless", b"[" * 100_000, "not valid JSON"),
    Bad("array", [], "must be a JSON object, not an array"),
    Bad("string", "x", "must be a JSON object, not a string"),
    Bad("number", 3, "must be a JSON object, not a number"),
    Bad("null", None, "must be a JSON object, not null"),
    Bad("no-media", b"{}", "Unsupported media type ''", status=415, media=""),
    Bad("form", b"prompt=x", "Unsupported media type", status=415, media="multipart/form-data"),
    Bad("text", b"{}", "Unsupported media type 'text/plain'", status=415, media="text/plain"),
    completion("model-number", "`model` must be a string, not a number", "model", model=3),
    completion("model-list", "`model` must be a string, not an array", "model", model=["tiny"]),
    completion("stream-string", "`stream` must be a boolean, not a string", "stream", stream="yes"),
    completion("stream-number", "`stream` must be a boolean, not a number", "stream", stream=1),
    completion(
        "options-alone", "only be defined when `stream=True`", "stream_options",
        stream_options={"include_usage": True},
    ),
    completion("options-list", "must be an object", "stream_options", stream_options=[1]),
    completion("limit-string", "`max_tokens` must be an integer", "max_tokens", max_tokens="9"),
    completion("limit-fraction", "`max_tokens` must be an integer", "max_tokens", max_tokens=1.5),
    completion("limit-boolean", "not a boolean", "max_tokens", max_tokens=True),
    completion("n-string", "`n` must be an integer, not a string", "n", n="2"),
    completion("minimum-negative", "must not be negative", "min_tokens", min_tokens=-1),
    completion("minimum-above", "greater than `max_tokens` (2)", "min_tokens", min_tokens=3,
               max_tokens=2),
    completion("params-string", "must be an object", "kv_transfer_params", kv_transfer_params="x"),
    completion("xargs", "set by the router", "vllm_xargs.kv_transfer_params",
               vllm_xargs={"kv_transfer_params": {"remote_host": "10.0.0.1"}}),
    chat("xargs-ec", "set by the router", "vllm_xargs.ec_transfer_params",
         vllm_xargs={"ec_transfer_params": {"a": 1}}),
    Bad("deep", b'{"prompt":"x","n":2,"a":' + b"[" * 260 + b"]" * 260 + b"}", "nested deeper"),
    Bad("deepest", b'{"prompt":"x","a":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested deeper"),
    Bad("many", b'{"messages":[' + b"{}," * 200_000 + b"{}]}", "no more than 200000", status=413,
        path=CHAT),
    completion("prompt-none", "`prompt` is required", "prompt", prompt=None),
    completion("prompt-number", "must be a string or an array", "prompt", prompt=7),
    completion("prompt-object", "must be a string or an array", "prompt", prompt={"a": 1}),
    completion("prompt-empty", "must not be empty", "prompt", prompt=[]),
    completion("prompt-mixed", "mixes kinds", "prompt", prompt=["a", 1]),
    completion("prompt-booleans", "strings or token ids", "prompt", prompt=[True]),
    chat("no-messages", "`messages` is required", "messages", messages=None),
    chat("messages-string", "must be an array, not a string", "messages", messages="hi"),
    chat("messages-empty", "must not be empty", "messages", messages=[]),
    chat("message-string", "`messages.1` must be an object", "messages.1", messages=[*USER, "x"]),
    chat("no-role", "role` is required", "messages.0.role", messages=[{"content": "x"}]),
    chat("limit", "must be an integer", "max_completion_tokens", max_completion_tokens="9"),
    Bad("no-input", {"model": "tiny"}, "`input` is required", "input", path=RESPONSES),
    Bad("input", {"input": 5}, "must be a string or an array", "input", path=RESPONSES),
    Bad("responses-limit", {"input": "x", "max_output_tokens": "9"}, "must be an integer",
        "max_output_tokens", path=RESPONSES),
    Bad("unknown-model", {"model": "gpt", "prompt": "x"}, "The model `gpt` does not exist.",
        "model", 404),
    Bad("unknown-model-chat", {"model": "gpt", "messages": USER}, "does not exist", "model", 404,
        CHAT),
    Bad("too-large", b'{"prompt": "' + b"x" * 5000, "larger than 4096 bytes", status=413),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
async def test_a_bad_request_is_named(desk: Desk, rogues: Rogues, bad: Bad) -> None:
    engine = await rogues("b0")
    await desk.push(max_body_bytes=4096 if bad.name == "too-large" else 2**20)
    data = bad.body if isinstance(bad.body, bytes) else json.dumps(bad.body).encode()
    headers = {"Content-Type": bad.media, "X-Request-Id": "mine"}
    async with desk.client.post(bad.path, data=data, headers=headers) as answer:
        body = await answer.json()
        assert answer.headers["X-Request-Id"] == "mine"
        assert answer.status == bad.status
    error = body["error"]
    assert bad.says in error["message"]
    assert (error["param"], error["code"]) == (bad.param, bad.status)
    assert error["type"].endswith("Error")
    assert not engine.seen
    record = await desk.record()
    assert (record.id, record.status, record.outcome) == ("mine", bad.status, Outcome.REJECTED)
    assert record.path is Path.NONE


def test_there_are_enough_of_them() -> None:
    assert len({bad.name for bad in BAD}) == len(BAD) >= 30


async def test_a_body_that_grows_too_large_is_cut_off(desk: Desk, rogues: Rogues) -> None:
    await rogues("b0")
    await desk.push(max_body_bytes=4096)

    async def endless() -> Any:
        for _ in range(100):
            yield b"x" * 1000

    headers = {"Content-Type": JSON}
    async with desk.client.post(COMPLETIONS, data=endless(), headers=headers) as answer:
        assert answer.status == 413
        assert (await answer.json())["error"]["type"] == "RequestEntityTooLargeError"


async def test_compressed_bodies_are_refused(desk: Desk, rogues: Rogues) -> None:
    await rogues("b0")
    await desk.push()
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    async with desk.client.post(COMPLETIONS, data=b"\x1f\x8b", headers=headers) as answer:
        assert answer.status == 415


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
async def test_a_body_that_is_plain_by_its_own_words_is_read(
    desk: Desk, rogues: Rogues, coding: str
) -> None:
    await rogues("b0")
    await desk.push(Mode.CHUNKED)
    headers = {"Content-Type": JSON, "Content-Encoding": coding}
    data = b'{"model":"tiny","prompt":"x"}'
    async with desk.client.post(COMPLETIONS, data=data, headers=headers) as answer:
        assert answer.status == 200


async def test_large_integers_reach_both_legs_as_they_came(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push()
    assert (await desk.complete(seed=2**64, vllm_xargs={"x": -(2**70)}))[0] == 200
    for engine in (prefill, decode):
        [seen] = engine.seen
        assert b'"seed":18446744073709551616' in seen.raw
        assert seen.body["vllm_xargs"] == {"x": -(2**70)}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
async def test_the_wrong_method_is_405(desk: Desk, method: str, path: str) -> None:
    async with desk.client.request(method, path) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "POST"
        assert (await answer.json())["error"]["code"] == 405
