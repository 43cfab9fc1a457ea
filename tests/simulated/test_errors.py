"""Bad requests are answered as vLLM answers them, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulated.conftest import Engines
from tests.simulated.talk import CHAT, COMPLETIONS, RESPONSES, Client, is_quiet

MESSAGES = [{"role": "user", "content": "hi"}]
BAD: list[tuple[str, dict[str, Any], int, str]] = [
    (COMPLETIONS, {}, 400, "prompt"),
    (COMPLETIONS, {"prompt": ""}, 400, "prompt"),
    (COMPLETIONS, {"prompt": []}, 400, "prompt"),
    (COMPLETIONS, {"prompt": {"a": 1}}, 400, "body.prompt"),
    (COMPLETIONS, {"prompt": ["a", 1]}, 400, "body.prompt"),
    (COMPLETIONS, {"prompt": [1, 99999]}, 400, "prompt"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": "many"}, 400, "body.max_tokens"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": True}, 400, "body.max_tokens"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": -5}, 400, "max_tokens"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 5000}, 400, "max_tokens"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 2, "min_tokens": 3}, 400, ""),
    (COMPLETIONS, {"prompt": "a", "min_tokens": -1}, 400, ""),
    (COMPLETIONS, {"prompt": "a", "temperature": "hot"}, 400, "body.temperature"),
    (COMPLETIONS, {"prompt": "a", "temperature": -1}, 400, "temperature"),
    (COMPLETIONS, {"prompt": "a", "top_p": 0}, 400, "top_p"),
    (COMPLETIONS, {"prompt": "a", "n": 0}, 400, "n"),
    (COMPLETIONS, {"prompt": "a", "stop": 5}, 400, "body.stop"),
    (COMPLETIONS, {"prompt": "a", "stop": ["x", ""]}, 400, ""),
    (COMPLETIONS, {"prompt": "a", "stream": "yes"}, 400, "body.stream"),
    (
        COMPLETIONS,
        {"prompt": "a", "stream_options": {"include_usage": True}},
        400,
        "stream_options",
    ),
    (COMPLETIONS, {"prompt": "a", "stream_options": 3}, 400, "body.stream_options"),
    (COMPLETIONS, {"prompt": "a", "kv_transfer_params": []}, 400, "body.kv_transfer_params"),
    (COMPLETIONS, {"prompt": "a", "logprobs": -2}, 400, "logprobs"),
    (COMPLETIONS, {"prompt": "a", "stream": True, "prompt_logprobs": 1}, 400, "prompt_logprobs"),
    (COMPLETIONS, {"prompt": "a", "model": "gpt-5"}, 404, "model"),
    (COMPLETIONS, {"prompt": [65] * 1001}, 400, "input_tokens"),
    (COMPLETIONS, {"prompt": [65] * 1000}, 400, "max_tokens"),
    (CHAT, {}, 400, "body.messages"),
    (CHAT, {"messages": "hi"}, 400, "body.messages"),
    (CHAT, {"messages": [{"content": "x"}]}, 400, "body.messages.0.role"),
    (CHAT, {"messages": [{"role": "user", "content": 5}]}, 400, "body.messages.0.content"),
    (CHAT, {"messages": MESSAGES, "top_logprobs": 2}, 400, "top_logprobs"),
    (CHAT, {"messages": MESSAGES, "max_completion_tokens": 2000}, 400, "max_completion_tokens"),
    (RESPONSES, {}, 400, "body.input"),
    (RESPONSES, {"input": 5}, 400, "body.input"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case[0]} {str(case[1])[:60]}")
async def test_a_bad_body_gets_its_error(
    engines: Engines, client: Client, case: tuple[str, dict[str, Any], int, str]
) -> None:
    path, body, status, param = case
    engine = await engines(max_model_len=1000)
    reply = await client.post(engine.url, path, body)
    assert reply.status == status
    assert set(reply.body) == {"error"}
    error = reply.body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == status
    assert (error["param"] or "") == param
    assert error["message"]
    assert is_quiet(engine)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"{nonsense", "application/json"),
        (b"[1]", "application/json"),
        (b'{"prompt": "a"}', "text/plain"),
    ],
)
async def test_what_is_not_a_json_object_is_refused(
    engines: Engines, client: Client, raw: bytes, kind: str
) -> None:
    engine = await engines()
    headers = {"Content-Type": kind}
    async with client.session.post(engine.url + CHAT, data=raw, headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["type"] == "Bad Request"


async def test_unknown_paths_and_methods_answer_as_fastapi_does(
    engines: Engines, client: Client
) -> None:
    engine = await engines()
    assert (await client.post(engine.url, "/v1/nothing", {})).status == 404
    async with client.session.get(engine.url + COMPLETIONS) as response:
        assert response.status == 405
        assert await response.json() == {"detail": "Method Not Allowed"}
