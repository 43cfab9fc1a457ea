"""/v1/messages through a handoff: Anthropic's events, errors and counts, as vLLM gives them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import Desk, read_some
from tests.gateway.rogue import PARAMS, Seen

from pdctl.domain.handoff import Outcome
from pdctl.gateway.sse import Scanner
from pdctl.routing.answers import Usage

MESSAGES = "/v1/messages"
SAYS = [{"role": "user", "content": [{"type": "text", "text": "Tell me of the sea. " * 40}]}]
BODY: dict[str, Any] = {
    "model": "tiny", "max_tokens": 12, "system": "You are terse.", "messages": SAYS,
}  # fmt: skip


def event(name: str, **data: Any) -> bytes:
    body = json.dumps({"type": name, **data}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {name}\ndata: {body}\n\n".encode()


def text(words: str) -> bytes:
    return event("content_block_delta", delta={"type": "text_delta", "text": words}, index=0)


def ended(reason: str | None, tokens: int) -> bytes:
    usage = {"input_tokens": 3, "output_tokens": tokens, "cache_read_input_tokens": 5}
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


BEGUN = event(
    "message_start", message={"content": [], "usage": {"input_tokens": 8, "output_tokens": 0}}
)
BLOCK = event("content_block_start", content_block={"type": "text", "text": ""}, index=0)
SIGNED = event("content_block_delta", delta={"type": "signature_delta", "signature": "a1"}, index=0)
STREAM = b"".join([
    BEGUN, event("ping"), BLOCK, text("héllo 你好 🙂"), text('"type":"message_stop"'), SIGNED,
    event("content_block_stop", index=0), ended("end_turn", 7),
])  # fmt: skip


def scanned(*pieces: bytes) -> tuple[bytes, int, Scanner]:
    scanner, out, tokens = Scanner(MESSAGES), b"", 0
    for piece in pieces:
        scan = scanner.feed(piece)
        out, tokens = out + scan.ready, tokens + scan.tokens
    return out, tokens, scanner


@settings(max_examples=100, deadline=None)
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_bytes_and_facts(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(places)]
    out, tokens, scanner = scanned(*pieces)
    assert (out, tokens) == (STREAM, 2)
    assert (scanner.finish_reason, scanner.closed, scanner.committed) == ("end_turn", True, True)
    assert (scanner.usage(), scanner.error) == (Usage(8, 7, 5), None)


def test_what_comes_before_the_first_token_binds_nobody() -> None:
    _, tokens, scanner = scanned(BEGUN, event("ping"), BLOCK)
    assert (tokens, scanner.committed) == (0, False)
    assert scanner.usage() == Usage(8, None, None)
    for aborted in (ended(None, 0), ended("end_turn", 0), ended(None, 3)):
        _, _, scanner = scanned(BEGUN, aborted)
        assert (scanner.closed, scanner.committed) == (True, False)


async def test_a_message_is_handed_over_and_says_what_it_took(desk: Desk, engines: Engines) -> None:
    prefill, decode = await engines("p0"), await engines("d0")
    await desk.push()
    status, whole = await desk.post(MESSAGES, BODY)
    assert status == 200
    assert (whole["type"], whole["stop_reason"]) == ("message", "max_tokens")
    assert "kv_transfer_params" not in whole
    record = await desk.record()
    assert (record.path, record.outcome, record.finish_reason) == ("pd", Outcome.OK, "max_tokens")
    usage = whole["usage"]
    assert usage["output_tokens"] == record.completion_tokens == 12
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    assert sum(usage[name] for name in parts) == record.prompt_tokens
    assert decode.metrics.external_hits.value == record.prompt_tokens == record.remote_tokens
    # The same, streamed, and the same again from one engine alone.
    streamed = await desk.raw(MESSAGES, {**BODY, "stream": True})
    record = await desk.record(2)
    assert (record.path, record.stream, record.completion_tokens) == ("pd", True, 12)
    assert record.ttft_ms is not None
    assert record.tpot_ms is not None
    assert not record.completion_derived
    lines = [json.loads(line[6:]) for line in streamed.split(b"\n") if line.startswith(b"data: ")]
    assert [one["type"] for one in lines[:2]] == ["message_start", "content_block_start"]
    assert lines[-1] == {"type": "message_stop"}
    said = "".join(one["delta"].get("text", "") for one in lines if "delta" in one)
    assert said == whole["content"][0]["text"]
    await desk.push(pairs=())
    _, alone = await desk.post(MESSAGES, BODY)
    assert alone["content"] == whole["content"]
    assert (await desk.record(3)).path_reason == "no_pair"
    assert len(prefill.leases) == 0


async def test_the_prefill_leg_is_one_token_and_no_stream(desk: Desk, rogues: Rogues) -> None:
    p0, d0 = await rogues("p0"), await rogues("d0")

    async def prefill(seen: Seen) -> None:
        await seen.json(
            {"type": "message", "stop_reason": "max_tokens", "kv_transfer_params": PARAMS}
        )

    async def decode(seen: Seen) -> None:
        await seen.events(STREAM[:40], STREAM[40:])

    p0.script, d0.script = prefill, decode
    await desk.push()
    asked = {**BODY, "stream": True, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    asked |= {"max_tokens": 2000, "stop_sequences": ["x"], "unknown": {"kept": [1, None]}}
    assert await desk.raw(MESSAGES, asked, headers={"anthropic-version": "2023-06-01"}) == STREAM
    sent = p0.seen[0].body
    assert (sent["max_tokens"], sent["stream"]) == (1, False)
    assert sent["kv_transfer_params"]["do_remote_decode"] is True
    assert d0.seen[0].body == {**asked, "kv_transfer_params": PARAMS}
    assert p0.seen[0].headers["anthropic-version"] == "2023-06-01"
    record = await desk.record()
    assert (record.prompt_tokens, record.cached_tokens, record.completion_tokens) == (8, 5, 7)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": None}, "`max_tokens` is required."),
        ({"max_tokens": 0}, "`max_tokens` must be positive, got 0."),
        ({"messages": []}, "`messages` must not be empty."),
        ({"kv_transfer_params": {"remote_host": "h"}}, "`kv_transfer_params` is set by the router"),
        ({"model": "other"}, "The model `other` does not exist."),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 12}},
            "`thinking.budget_tokens` (12) must be less than `max_tokens` (12).",
        ),
    ],
)
async def test_mistakes_have_the_shape_of_that_api(
    desk: Desk, engines: Engines, change: dict[str, Any], words: str
) -> None:
    await engines("p0")
    await engines("d0")
    await desk.push()
    status, body = await desk.post(MESSAGES, {**BODY, **change})
    kind = {400: "BadRequestError", 404: "NotFoundError"}[status]
    assert (set(body), body["type"], body["error"]["type"]) == ({"type", "error"}, "error", kind)
    assert words in body["error"]["message"]


async def test_no_instance_is_told_in_that_shape(desk: Desk) -> None:
    await desk.push()
    status, body = await desk.post(MESSAGES, BODY)
    assert (status, body["type"]) == (503, "error")
    assert body["error"]["type"] == "ServiceUnavailableError"
    async with desk.client.get(MESSAGES) as answer:
        assert (answer.status, (await answer.json())["type"]) == (405, "error")


async def test_an_aborted_message_is_no_answer(desk: Desk, rogues: Rogues) -> None:
    b0, b1 = await rogues("b0"), await rogues("b1")

    async def abort(seen: Seen) -> None:
        if seen.body.get("stream"):
            await seen.events(BEGUN + ended(None, 0))
        else:
            await seen.json({"type": "message", "content": [{"type": "text", "text": ""}]})

    async def answer(seen: Seen) -> None:
        if seen.body.get("stream"):
            await seen.events(STREAM)
        else:
            await seen.json({"type": "message", "stop_reason": "end_turn"})

    b0.script, b1.script = abort, answer
    await desk.push()
    assert await desk.raw(MESSAGES, {**BODY, "stream": True}) == STREAM
    record = await desk.record()
    assert (record.retries, record.outcome) == (1, Outcome.OK)
    status, body = await desk.post(MESSAGES, BODY)
    assert (status, body["stop_reason"]) == (200, "end_turn")
    assert (await desk.record(2)).retries == 1


async def test_a_stream_that_dies_ends_with_an_error_event(desk: Desk, rogues: Rogues) -> None:
    b0 = await rogues("b0")

    async def die(seen: Seen) -> None:
        await seen.events(BEGUN, BLOCK, text("half"), end=False)
        seen.die()

    b0.script = die
    await desk.push()
    async with desk.client.post(MESSAGES, json={**BODY, "stream": True}) as answer:
        said = await read_some(answer, b'"type":"error"')
    last = said.rpartition(b"event: error\ndata: ")[2]
    assert json.loads(last)["error"]["type"] == "BadGatewayError"
    assert b"message_stop" not in said
    record = await desk.record()
    assert (record.outcome, record.completion_tokens) == (Outcome.TRUNCATED, 1)
    assert record.completion_derived
