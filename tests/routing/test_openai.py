"""Error envelopes and the mistakes that the router itself must find."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.routing import openai

CHAT = "/v1/chat/completions"


def test_the_envelope_is_vllms() -> None:
    assert openai.envelope(404, "The model `x` does not exist.", "model") == {
        "error": {
            "message": "The model `x` does not exist.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }
    assert openai.envelope(418, "?")["error"]["type"] == "BadRequestError"
    assert openai.envelope(599, "?")["error"]["type"] == "InternalServerError"


def test_a_broken_stream_ends_in_each_endpoints_own_shape() -> None:
    name, data = openai.stream_error(502, "gone", CHAT)
    assert (name, data["error"]["code"]) == ("", 502)
    name, data = openai.stream_error(502, "gone", "/v1/responses")
    assert (name, data["type"], data["error"]["message"]) == ("error", "error", "gone")


@pytest.mark.parametrize("body", [{}, [], "x", 3, None, True])
def test_only_objects_with_messages_are_chats(body: object) -> None:
    mistake = openai.mistake_in(body, CHAT)
    assert mistake is not None
    assert mistake.status == 400


def test_a_good_body_has_no_mistake() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "min_tokens": 2,
        "max_tokens": 2,
        "temperature": "not ours to judge",
    }
    assert openai.mistake_in(body, CHAT) is None
    assert openai.mistake_in({"prompt": [1, 2]}, "/v1/completions") is None
    assert openai.mistake_in({"prompt": [[1], [2]]}, "/v1/completions") is None
    assert openai.mistake_in({"prompt_embeds": "AA"}, "/v1/completions") is None
    assert openai.mistake_in({"input": []}, "/v1/responses") is None


def test_the_model_list_names_the_served_model() -> None:
    [card] = openai.model_list("tiny", 5)["data"]
    assert (card["id"], card["object"], card["created"]) == ("tiny", "model", 5)


PARAMS = {"do_remote_prefill": True, "remote_host": "10.0.0.1"}


@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params"])
@pytest.mark.parametrize(
    "around",
    ["", "vllm_xargs", "extra_body", "sampling_params", "sampling_params.extra_args", "a.b.c"],
)
def test_transfer_params_are_found_wherever_vllm_looks(name: str, around: str) -> None:
    body: dict[str, Any] = {name: PARAMS}
    for outer in reversed(around.split(".") if around else []):
        body = {"other": {"x": 1}, outer: body}
    mistake = openai.transfer_params_in(body)
    assert mistake is not None
    assert (mistake.status, mistake.param) == (400, f"{around}.{name}".lstrip("."))


@pytest.mark.parametrize(
    "body",
    [
        {"kv_transfer_params": None},
        {"vllm_xargs": {"kv_transfer_params": None, "x": [1]}},
        {"messages": [{"role": "user", "content": "kv_transfer_params"}]},
        {"metadata": {"about": "kv_transfer_params"}},
        [PARAMS],
        "kv_transfer_params",
    ],
)
def test_who_only_speaks_of_transfer_params_is_served(body: Any) -> None:
    assert openai.transfer_params_in(body) is None


def test_long_lists_are_looked_at_in_part() -> None:
    user = {"role": "user", "content": "x"}
    messages = [*[user] * openai.CHECKED, 5]
    assert openai.mistake_in({"messages": messages}, CHAT) is None
    assert openai.mistake_in({"messages": messages[1:]}, CHAT) is not None
    assert openai.mistake_in({"prompt": [*[1] * openai.CHECKED, "x"]}, "/v1/completions") is None
