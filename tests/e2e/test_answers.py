"""Whatever a client may ask of real vLLM, a handoff answers as one engine alone would."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import prompt

pytestmark = pytest.mark.real
LEAVERS = 14
STEP_S = 0.12
"""How much longer each of them stays than the one before: from prefill until far into decode."""
WORDS = "Grüße, 世界! Why would prefill and decode live apart? 🙂 " * 12
ASKS: dict[str, dict[str, Any]] = {
    "multi-byte": {},
    "logprobs": {"logprobs": 2},
    "grammar": {"structured_outputs": {"grammar": 'root ::= "ja" | "nein" | "世界"'}},
    "choice": {"structured_outputs": {"choice": ["Grüße", "🙂"]}},
    "stop": {"stop": ["e", "世"], "include_stop_str_in_output": True},
    "min_tokens": {"min_tokens": 20},
}


@pytest.fixture
def fleet(real_fleet: LiveFleet) -> LiveFleet:
    """1P1D of real vLLM that hands over."""
    real_fleet.set_mode("pd")
    return real_fleet


def request(body: dict[str, Any]) -> dict[str, Any]:
    """A body as clients make it, greedy."""
    return {"model": "tiny", "temperature": 0, "max_tokens": 40, **body}


def post(fleet: LiveFleet, path: str, body: dict[str, Any]) -> httpx2.Response:
    """The answer of the front door."""
    return fleet.http.post(f"{fleet.router}/v1/{path}", json=request(body))


def whole(fleet: LiveFleet, body: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, int], str]:
    """What matters of an answer in one piece: the choice, the usage and the id."""
    reply = post(fleet, "completions", body)
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    (choice,) = answer["choices"]
    return choice, count(answer["usage"]), reply.headers["x-request-id"]


def count(usage: dict[str, Any]) -> tuple[int, int]:
    """Tokens read and written."""
    return usage["prompt_tokens"], usage["completion_tokens"]


def streamed(fleet: LiveFleet, body: dict[str, Any]) -> tuple[str, tuple[int, int]]:
    """Text and usage of the same as a stream."""
    asked = {**request(body), "stream": True, "stream_options": {"include_usage": True}}
    text, usage = "", (0, 0)
    with fleet.http.stream("POST", f"{fleet.router}/v1/completions", json=asked) as reply:
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
    assert lines[-1] == "[DONE]", lines[-3:]
    for chunk in map(json.loads, lines[:-1]):
        text += "".join(choice["text"] for choice in chunk["choices"])
        usage = count(chunk["usage"]) if chunk.get("usage") else usage
    return text, usage


def kept(fleet: LiveFleet, id_: str) -> dict[str, Any]:
    """The record of a request, once the control plane has it."""

    def look() -> Any:
        reply = fleet.http.get(f"{fleet.admin}/api/v1/requests/{id_}")
        return reply.json() if reply.status_code == 200 else None

    return dict(wait_for("the record", look, seconds=30))


@pytest.mark.parametrize("name", ASKS)
def test_a_handoff_answers_as_one_engine_does(fleet: LiveFleet, name: str) -> None:
    body = {"prompt": f"{name}: {WORDS}", **ASKS[name]}
    choice, usage, id_ = whole(fleet, body)
    stream = streamed(fleet, body)
    record = kept(fleet, id_)
    fleet.set_mode("chunked")
    assert whole(fleet, body)[:2] == (choice, usage)
    assert stream == (choice["text"], usage)
    assert (record["path"], record["outcome"]) == ("pd", "ok")
    if name == "choice":
        assert choice["text"] in ("Grüße", "🙂")


@pytest.mark.parametrize(("path", "body"), [
    ("embeddings", {"input": "x"}),
    ("score", {"text_1": "x", "text_2": "y"}),
    ("completions", {"prompt": "x", "structured_outputs": {"grammar": "root :: no"}}),
    ("completions", {"prompt": prompt(9000)}),
])  # fmt: skip
def test_what_the_engine_refuses_is_refused_in_its_own_words(
    fleet: LiveFleet, path: str, body: dict[str, Any]
) -> None:
    reply = post(fleet, path, body)
    port = fleet.instance("decode-0")["http_port"]
    direct = fleet.http.post(f"http://127.0.0.1:{port}/v1/{path}", json=request(body))
    assert reply.status_code in (400, 404), reply.text
    assert (reply.status_code, reply.json()) == (direct.status_code, direct.json())


async def test_clients_that_leave_at_any_moment_leave_nothing_in_the_engines(
    fleet: LiveFleet,
) -> None:
    async with httpx2.AsyncClient(timeout=120) as http:
        await asyncio.gather(*(leave(http, fleet, turn) for turn in range(LEAVERS)))
    await asyncio.to_thread(wait_for, "idle engines", lambda: not held(fleet), seconds=60)
    await asyncio.to_thread(wait_for, "their records", lambda: gone(fleet), seconds=30)
    assert fleet.complete(prompt=prompt(300, salt=70))["choices"][0]["text"]


def gone(fleet: LiveFleet) -> bool:
    """Whether the last requests are theirs: each left, or had its answer before it would."""
    page = fleet.get("/api/v1/requests", limit=LEAVERS)["items"]
    outcomes = {one["outcome"] for one in page}
    return outcomes <= {"ok", "client_gone"} and "client_gone" in outcomes


async def leave(http: httpx2.AsyncClient, fleet: LiveFleet, turn: int) -> None:
    """Ask for much, and go after a while."""
    body = {"prompt": prompt(2500, salt=700 + turn), "max_tokens": 1200, "stream": True}
    asked = {**request(body), "ignore_eos": True}
    try:
        async with asyncio.timeout(STEP_S * (turn + 1)):
            async with http.stream("POST", f"{fleet.router}/v1/completions", json=asked) as reply:
                async for _ in reply.aiter_lines():
                    pass
    except TimeoutError:
        return


def held(fleet: LiveFleet) -> dict[str, float]:
    """What engines still do or keep, by their own word: requests, and KV that nobody may reuse."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    found: dict[str, float] = {}
    for one in fleet.fleet()["instances"]:
        text = fleet.http.get(f"http://127.0.0.1:{one['http_port']}/metrics").text
        for family in text_string_to_metric_families(text):
            if family.name in names:
                busy = sum(sample.value for sample in family.samples)
                found |= {f"{one['id']} {family.name}": busy} if busy else {}
    return found
