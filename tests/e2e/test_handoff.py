"""The handoff is real: the prompt's KV moved, and the text is what one engine alone would write."""

from __future__ import annotations

import concurrent.futures
import json
import random
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.live import LiveFleet, wait_for

LENGTHS = (
    1,
    2,
    3,
    5,
    17,
    64,
    100,
    127,
    128,
    129,
    200,
    255,
    256,
    257,
    384,
    500,
    777,
    1024,
    2047,
    3000,
)


def prompt(length: int, salt: int = 0) -> list[int]:
    """Token ids, so that the length is exact; different salts share no block."""
    draw = random.Random(f"{length}/{salt}")
    return [draw.randrange(64, 464) for _ in range(length)]


def remote_tokens(fleet: LiveFleet) -> float:
    """Decode's own count of prompt tokens whose KV came from elsewhere, read from the engine."""
    port = fleet.instance("decode-0")["http_port"]
    text = fleet.http.get(f"http://127.0.0.1:{port}/metrics").text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "vllm:prompt_tokens_by_source"
        for sample in family.samples
        if sample.labels.get("source") == "external_kv_transfer" and sample.name.endswith("_total")
    )


def answer(fleet: LiveFleet, *, stream: bool, **body: Any) -> tuple[str, list[Any]]:
    """Text and per-token logprobs (when asked for) of one completion."""
    if not stream:
        choice = fleet.complete(**body)["choices"][0]
        logprobs = choice.get("logprobs") or {}
        return choice["text"], logprobs.get("tokens", [])
    text, tokens = "", []
    request = {"model": "tiny", "temperature": 0, "max_tokens": 8, "stream": True, **body}
    with fleet.http.stream("POST", f"{fleet.router}/v1/completions", json=request) as reply:
        assert reply.status_code == 200
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    for line in lines[:-1]:
        for choice in json.loads(line)["choices"]:
            text += choice["text"]
            tokens += (choice.get("logprobs") or {}).get("tokens", [])
    return text, tokens


@pytest.mark.parametrize("logprobs", [None, 1], ids=["plain", "logprobs"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_pd_and_chunked_write_the_same(
    fleet: LiveFleet, stream: bool, logprobs: int | None
) -> None:
    salt = 2 * stream + bool(logprobs)
    bodies = [
        {"prompt": prompt(n, salt)} | ({"logprobs": logprobs} if logprobs else {}) for n in LENGTHS
    ]
    handed = [answer(fleet, stream=stream, **body) for body in bodies]
    fleet.set_mode("chunked")
    alone = [answer(fleet, stream=stream, **body) for body in bodies]
    assert handed == alone
    assert all(text for text, _ in handed)
    assert all(bool(tokens) == bool(logprobs) for _, tokens in handed)


def test_the_kv_really_moved(fleet: LiveFleet) -> None:
    before, length = remote_tokens(fleet), 1500
    fleet.complete(prompt=prompt(length, salt=91))
    assert remote_tokens(fleet) - before == length
    record = fleet.get("/api/v1/requests", limit=1)["items"][0]
    assert record["path"] == "pd"
    assert (record["prefill"], record["decode"]) == ("prefill-0", "decode-0")
    assert record["remote_tokens"] == length


def test_mode_switch_under_eight_streams(fleet: LiveFleet) -> None:
    """chunked and back while eight streams run: all end whole, each record says its path."""
    bodies = [{"prompt": prompt(300 + i, salt=40 + i), "max_tokens": 200} for i in range(8)]
    reference = [answer(fleet, stream=False, **body)[0] for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [pool.submit(answer, fleet, stream=True, **body) for body in bodies[:4]]
        wait_for(
            "four streams under way",
            lambda: fleet.fleet()["router"]["inflight"] >= 1,
            seconds=30,
        )
        fleet.set_mode("chunked")
        running += [pool.submit(answer, fleet, stream=True, **body) for body in bodies[4:6]]
        wait_for("more streams", lambda: fleet.fleet()["router"]["inflight"] >= 1, seconds=30)
        fleet.set_mode("pd")
        running += [pool.submit(answer, fleet, stream=True, **body) for body in bodies[6:]]
        texts = [one.result(timeout=120)[0] for one in running]
    assert texts == reference
    page = fleet.get("/api/v1/requests", limit=8)["items"]
    assert {one["outcome"] for one in page} == {"ok"}
    assert {one["path"] for one in page} <= {"pd", "chunked"}
