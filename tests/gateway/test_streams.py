"""Streams reach the client byte for byte, and a stream that dies says so."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.waiting import until
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import CHAT, COMPLETIONS, RESPONSES, Desk, read_some
from tests.gateway.rogue import PARAMS, Seen, completion_events, event, prefill_then

from pdctl.domain.handoff import Outcome, Path

BODY: dict[str, Any] = {"model": "tiny", "prompt": "hello", "stream": True, "max_tokens": 5}
EVENTS = [
    b": keep-alive\n\n",
    *completion_events("héllo", " 你好", " 🙂", ' \\u0000 "text": "x"'),
]
STREAM = b"".join(EVENTS)


async def pair(desk: Desk, rogues: Rogues) -> tuple[Any, Any]:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push()
    return prefill, decode


async def test_both_legs_are_derived_from_one_body(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await pair(desk, rogues)
    body = {**BODY, "min_tokens": 2, "stream_options": {"include_usage": True}, "seed": 7}
    await desk.raw(COMPLETIONS, body)
    [first], [second] = prefill.seen, decode.seen
    assert first.body["max_tokens"] == 1
    assert first.body["stream"] is False
    assert first.body["kv_transfer_params"]["do_remote_decode"] is True
    assert not {"stream_options", "min_tokens"} & set(first.body)
    assert second.body == {**body, "kv_transfer_params": PARAMS}


async def test_a_plain_request_travels_as_its_own_bytes(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")
    await desk.push()
    raw = b'{ "model":"tiny",\n "prompt":"h\\u00e9llo", "seed": 1.0e2 }'
    headers = {"Content-Type": "application/json"}
    async with desk.client.post(COMPLETIONS, data=raw, headers=headers) as answer:
        assert answer.status == 200
    assert decode.seen[0].raw == raw


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(1, len(STREAM) - 1), max_size=10))
async def test_any_cut_arrives_whole(desk: Desk, rogues: Rogues, cuts: list[int]) -> None:
    if "p0" not in desk.engines:
        await pair(desk, rogues)
    edges = [0, *sorted(set(cuts)), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(edges)]

    async def stream(seen: Seen) -> None:
        await seen.events(*pieces)

    decode: Any = desk.engines["d0"]
    decode.script = prefill_then(stream)
    assert await desk.raw(COMPLETIONS, BODY) == STREAM


async def test_a_stream_is_told_token_by_token(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await pair(desk, rogues)

    async def stream(seen: Seen) -> None:
        await seen.events(*EVENTS)

    decode.script = stream
    await desk.raw(COMPLETIONS, BODY)
    record = await desk.record()
    assert (record.path, record.outcome, record.stream) == (Path.PD, Outcome.OK, True)
    assert (record.completion_tokens, record.completion_derived) == (4, True)
    assert (record.prompt_tokens, record.remote_tokens) == (7, 7)
    assert record.finish_reason == "stop"
    assert sum(count for _, count in record.itl) == 3
    assert [leg.kind for leg in record.legs] == ["prefill", "decode"]
    ttft, e2e = record.ttft_ms, record.e2e_ms
    assert ttft is not None
    assert e2e is not None
    assert 0 < ttft <= e2e
    assert record.params_age_ms is not None
    assert prefill.seen[0].headers["x-request-id"] == decode.seen[0].headers["x-request-id"]


async def test_the_engines_usage_beats_counting(desk: Desk, engines: Engines) -> None:
    await engines("p0", enable_per_request_metrics=True)
    await engines("d0", enable_per_request_metrics=True)
    await desk.push()
    options = {"include_usage": True}
    await desk.raw(COMPLETIONS, {**BODY, "stream_options": options})
    record = await desk.record()
    assert (record.completion_tokens, record.completion_derived) == (5, False)
    assert record.tpot_ms is not None
    assert {"queue_time_ms", "generation_time_ms"} <= {name for name, _ in record.legs[1].engine}


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT, RESPONSES])
async def test_a_stream_that_dies_ends_with_an_error_and_no_done(
    desk: Desk, rogues: Rogues, endpoint: str
) -> None:
    _, decode = await pair(desk, rogues)

    async def die(seen: Seen) -> None:
        if endpoint == RESPONSES:
            data = event({"type": "response.output_text.delta", "delta": "x"})
            await seen.events(data, end=False)
        else:
            content = {"delta": {"content": "x"}, "text": "x", "finish_reason": None}
            await seen.events(event({"choices": [content]}), b'data: {"half": ', end=False)
        seen.die()

    decode.script = die
    body = {"model": "tiny", "stream": True, "input": "x", "prompt": "x"}
    body["messages"] = [{"role": "user", "content": "x"}]
    data = await desk.raw(endpoint, body)
    assert b"[DONE]" not in data
    assert b"half" not in data
    assert data.endswith(b"\n\n")
    last = data.strip().split(b"\n\n")[-1]
    error = json.loads(last[last.index(b"{") :])["error"]
    assert (error["type"], error["code"]) == ("BadGatewayError", 502)
    assert "127.0.0.1" not in last.decode()
    assert (last.startswith(b"event: error")) == (endpoint == RESPONSES)
    record = await desk.record()
    assert (record.outcome, record.retries) == (Outcome.TRUNCATED, 0)
    assert desk.suspects[0].instance == "d0"
    await desk.idle()


async def test_a_clean_end_without_done_is_a_death(desk: Desk, rogues: Rogues) -> None:
    _, decode = await pair(desk, rogues)

    async def stop_early(seen: Seen) -> None:
        await seen.events(*completion_events("Hello", done=False))

    decode.script = stop_early
    data = await desk.raw(COMPLETIONS, BODY)
    assert b'"BadGatewayError"' in data
    assert (await desk.record()).outcome is Outcome.TRUNCATED


async def test_a_stalled_stream_is_ended(desk: Desk, rogues: Rogues) -> None:
    _, decode = await pair(desk, rogues)
    await desk.push(stall_timeout_s=0.2)

    async def stall(seen: Seen) -> None:
        await seen.events(*completion_events("Hello", done=False), end=False)
        await seen.gone.wait()

    decode.script = stall
    data = await desk.raw(COMPLETIONS, BODY)
    assert b'"GatewayTimeoutError"' in data
    record = await desk.record()
    assert record.outcome is Outcome.TRUNCATED
    assert "timeout" in record.error


@pytest.mark.parametrize("apart", [True, False])
async def test_an_engines_own_error_is_passed_on_once_and_is_the_end(
    desk: Desk, rogues: Rogues, apart: bool
) -> None:
    _, decode = await pair(desk, rogues)
    error = event({"error": {"message": "boom", "type": "InternalServerError", "code": 500}})
    pieces = [*completion_events("Hello", finish=None, done=False), error]
    done = b"data: [DONE]\n\n"

    async def fail(seen: Seen) -> None:
        await seen.events(*([*pieces, done] if apart else [b"".join(pieces) + done]))

    decode.script = fail
    assert await desk.raw(COMPLETIONS, BODY) == b"".join(pieces), "a stream that died is not done"
    record = await desk.record()
    assert (record.outcome, record.error) == (Outcome.TRUNCATED, "boom")


async def test_keep_alive_comments_pass_at_once_and_are_no_tokens(
    desk: Desk, rogues: Rogues
) -> None:
    _, decode = await pair(desk, rogues)

    async def slowly(seen: Seen) -> None:
        await seen.events(b": keep-alive\n\n", end=False)
        go.append(seen)

    go: list[Seen] = []
    decode.script = slowly
    async with desk.client.post(COMPLETIONS, json=BODY) as answer:
        assert await read_some(answer, b"\n\n") == b": keep-alive\n\n"
        assert not desk.records
        await go[0].chunks(*completion_events("x"))
        await go[0].send(b"0\r\n\r\n")
        assert b"[DONE]" in await answer.read()
    record = await desk.record()
    assert (record.completion_tokens, record.itl) == (1, ())


async def test_after_done_nothing_can_spoil_the_answer(desk: Desk, rogues: Rogues) -> None:
    _, decode = await pair(desk, rogues)

    async def die_after(seen: Seen) -> None:
        await seen.events(*completion_events("Hello"), end=False)
        seen.die()

    async def go_on_after(seen: Seen) -> None:
        await seen.events(*completion_events("Hello"), end=False)
        await seen.gone.wait()

    for number, script in enumerate((die_after, go_on_after)):
        decode.script = script
        assert await desk.raw(COMPLETIONS, BODY) == b"".join(completion_events("Hello"))
        assert (await desk.record(number + 1)).outcome is Outcome.OK
    await until(decode.seen[-1].gone.is_set)
    await desk.idle()


async def test_connections_are_reused(desk: Desk, rogues: Rogues) -> None:
    _, decode = await pair(desk, rogues)
    for _ in range(3):
        await desk.raw(COMPLETIONS, BODY)
        await desk.idle()
    assert len({id(one.writer) for one in decode.seen}) == 1
