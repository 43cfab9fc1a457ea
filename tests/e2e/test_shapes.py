"""What a request may ask for beside text comes out of a handoff as out of one engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.live import LiveFleet
from tests.e2e.test_messages import record_of

SCHEMA = {
    "type": "object", "properties": {"colour": {"enum": ["red", "green"]}},
    "required": ["colour"], "additionalProperties": False,
}  # fmt: skip
ASKS: dict[str, dict[str, Any]] = {
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "structured": {
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "paint", "schema": SCHEMA},
        },
    },
    "usage": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
}  # fmt: skip


def asked(name: str) -> dict[str, Any]:
    words = f"Say a colour, number {name}. " * 20
    return {
        "model": "tiny", "messages": [{"role": "user", "content": words}], "max_tokens": 24,
        "temperature": 0, **ASKS[name],
    }  # fmt: skip


def answered(fleet: LiveFleet, body: dict[str, Any], id_: str) -> list[Any]:
    """What was said, without what differs from answer to answer."""
    named = {"X-Request-Id": id_}
    url = f"{fleet.router}/v1/chat/completions"
    if "stream_options" not in body:
        answer = fleet.http.post(url, json=body, headers=named)
        assert answer.status_code == 200, answer.text
        choice = answer.json()["choices"][0]
        return [
            choice["message"]["content"], choice["finish_reason"],
            [one["token"] for one in _tokens(choice)],
        ]  # fmt: skip
    with fleet.http.stream("POST", url, json={**body, "stream": True}, headers=named) as stream:
        lines = [line.removeprefix("data: ") for line in stream.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    assert all("usage" in one for one in events)
    text = "".join(c["delta"].get("content") or "" for one in events for c in one["choices"])
    return [text, events[-1]["usage"]["completion_tokens"]]


def _tokens(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return (choice.get("logprobs") or {}).get("content") or []


@pytest.mark.parametrize("name", ASKS)
def test_a_handoff_answers_as_one_engine_does(fleet: LiveFleet, name: str) -> None:
    body = asked(name)
    handed = answered(fleet, body, f"shape-{name}")
    record = record_of(fleet, f"shape-{name}")
    assert (record["path"], record["outcome"]) == ("pd", "ok")
    fleet.set_mode("chunked")
    assert answered(fleet, body, f"whole-{name}") == handed
    if name == "logprobs":
        assert handed[-1]
    if name == "structured" and fleet.kind == "vllm":
        assert json.loads(handed[0])["colour"] in {"red", "green"}
