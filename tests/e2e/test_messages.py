"""/v1/messages is handed over, and one engine alone would answer the same."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.live import LiveFleet, wait_for

BODY: dict[str, Any] = {
    "model": "tiny", "max_tokens": 16, "temperature": 0,
    "messages": [{"role": "user", "content": "Once upon a time there was a router. " * 12}],
}  # fmt: skip


def record_of(fleet: LiveFleet, id_: str) -> dict[str, Any]:
    """The record of a request that was answered just now."""

    def look() -> dict[str, Any] | None:
        items = fleet.get("/api/v1/requests", limit=20)["items"]
        return next((one for one in items if one["id"] == id_), None)

    return dict(wait_for(f"the record of {id_}", look, seconds=30))


def whole(fleet: LiveFleet, id_: str) -> dict[str, Any]:
    named = {"X-Request-Id": id_}
    answer = fleet.http.post(f"{fleet.router}/v1/messages", json=BODY, headers=named)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def streamed(fleet: LiveFleet, id_: str) -> list[dict[str, Any]]:
    body, named = {**BODY, "stream": True}, {"X-Request-Id": id_}
    url = f"{fleet.router}/v1/messages"
    with fleet.http.stream("POST", url, json=body, headers=named) as answer:
        assert answer.status_code == 200
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_a_message_is_handed_over_and_is_the_same(fleet: LiveFleet) -> None:
    handed, events = whole(fleet, "message-whole"), streamed(fleet, "message-stream")
    newest = record_of(fleet, "message-stream")
    for record in (newest, record_of(fleet, "message-whole")):
        assert (record["endpoint"], record["path"]) == ("/v1/messages", "pd")
        assert record["outcome"] == "ok"
        assert record["remote_tokens"] == record["prompt_tokens"]
        assert record["completion_tokens"] == handed["usage"]["output_tokens"]
    assert newest["ttft_ms"] is not None
    assert events[0]["type"] == "message_start"
    assert events[-1]["type"] == "message_stop"
    said = "".join(one["delta"].get("text", "") for one in events if "delta" in one)
    assert said == handed["content"][0]["text"]
    fleet.set_mode("chunked")
    alone = whole(fleet, "message-alone")
    assert (alone["content"], alone["stop_reason"]) == (handed["content"], handed["stop_reason"])


def test_mistakes_have_the_shape_of_that_api(fleet: LiveFleet) -> None:
    body = {**BODY, "temperature": -1}
    answer = fleet.http.post(f"{fleet.router}/v1/messages", json=body)
    assert (answer.status_code, answer.json()["type"]) == (400, "error")
