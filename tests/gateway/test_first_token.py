"""What comes before the first token, what a token is, and what the router concludes from it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Rogues
from tests.gateway.desk import CHAT, COMPLETIONS, RESPONSES, Desk
from tests.gateway.rogue import (
    HEAD,
    Rogue,
    Seen,
    completion_events,
    event,
    prefill_then,
    whole_text,
)

from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode

BODY: dict[str, Any] = {"model": "tiny", "prompt": "hello", "stream": True}
CREATED = b"event: response.created\n" + event({"type": "response.created", "response": {}})
DELTA = event({"type": "response.output_text.delta", "delta": "x"})
COMPLETED = event({"type": "response.completed", "response": {"status": "completed"}})


async def pair(desk: Desk, rogues: Rogues, **limits: Any) -> tuple[Rogue, Rogue]:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push(**limits)
    return prefill, decode


def compact(*choices: dict[str, Any], **more: Any) -> bytes:
    body = {"id": "x", "choices": list(choices), **more}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def text(words: str, finish: str | None = None) -> bytes:
    return compact({"index": 0, "text": words, "logprobs": None, "finish_reason": finish})


@pytest.mark.parametrize(
    ("endpoint", "early", "rest"),
    [
        (COMPLETIONS, b": keep-alive\n\n", completion_events("Hello")),
        (RESPONSES, CREATED, [DELTA, COMPLETED]),
    ],
)
async def test_prefill_is_held_until_its_kv_was_pulled(
    desk: Desk, rogues: Rogues, endpoint: str, early: bytes, rest: list[bytes]
) -> None:
    _, decode = await pair(desk, rogues)
    pulled, end = asyncio.Event(), asyncio.Event()

    async def slow_pull(seen: Seen) -> None:
        await seen.events(early, end=False)
        await pulled.wait()
        await seen.chunks(rest[0])
        await end.wait()
        await seen.chunks(*rest[1:])
        await seen.send(b"0\r\n\r\n")

    decode.script = slow_pull
    body = {"model": "tiny", "prompt": "x", "input": "x", "stream": True}
    async with desk.client.post(endpoint, json=body) as answer:
        assert await answer.content.readany() == early
        assert desk.plane.load.inflight == {"p0": 1, "d0": 1}
        pulled.set()
        assert await answer.content.readany() == rest[0]
        await until(lambda: desk.plane.load.inflight == {"d0": 1})
        end.set()
        assert await answer.content.read() == b"".join(rest[1:])
    assert (await desk.record()).outcome is Outcome.OK
    await desk.idle()


async def test_a_long_prefill_is_no_stall(desk: Desk, rogues: Rogues) -> None:
    """The stall limit is for gaps between tokens; a response says that it exists long before."""
    decode = await rogues("d0")
    await desk.push(Mode.CHUNKED, stall_timeout_s=0.1, first_byte_timeout_s=20.0)

    async def long_prefill(seen: Seen) -> None:
        await seen.events(CREATED, end=False)
        await asyncio.sleep(0.4)
        await seen.chunks(DELTA, COMPLETED)
        await seen.send(b"0\r\n\r\n")

    decode.script = long_prefill
    data = await desk.raw(RESPONSES, {"model": "tiny", "input": "x", "stream": True})
    assert data == CREATED + DELTA + COMPLETED
    assert (await desk.record()).outcome is Outcome.OK


async def test_a_token_without_text_is_a_token(desk: Desk, rogues: Rogues) -> None:
    """vLLM holds back text that is no whole character yet; the step took its time all the same."""
    _, decode = await pair(desk, rogues)
    go = asyncio.Event()

    async def stream(seen: Seen) -> None:
        await seen.events(text(""), end=False)
        await go.wait()
        await seen.chunks(text(""), text("é"), text("x"), text("", "stop"), b"data: [DONE]\n\n")
        await seen.send(b"0\r\n\r\n")

    decode.script = stream
    async with desk.client.post(COMPLETIONS, json=BODY) as answer:
        assert await answer.content.readany() == text("")
        await asyncio.sleep(0.1)
        go.set()
        await answer.read()
    record = await desk.record()
    assert (record.completion_tokens, record.completion_derived) == (5, True)
    assert record.ttft_ms is not None
    assert record.e2e_ms is not None
    assert record.ttft_ms < record.e2e_ms - 80
    assert sum(count for _, count in record.itl) == 4


async def test_usage_of_a_stream_that_dies_is_kept(desk: Desk, rogues: Rogues) -> None:
    _, decode = await pair(desk, rogues)
    usage = {"prompt_tokens": 9, "completion_tokens": 3}

    async def die(seen: Seen) -> None:
        await seen.events(compact({"text": "abc", "finish_reason": None}, usage=usage), end=False)
        seen.die()

    decode.script = die
    await desk.raw(COMPLETIONS, BODY)
    record = await desk.record()
    assert record.outcome is Outcome.TRUNCATED
    assert (record.prompt_tokens, record.completion_tokens) == (9, 3)
    assert not record.completion_derived


async def test_streams_of_several_answers_have_no_tpot(desk: Desk, rogues: Rogues) -> None:
    _, decode = await pair(desk, rogues)

    async def stream(seen: Seen) -> None:
        await seen.events(text("a"), text("b"), text("c"), text("d", "stop"), b"data: [DONE]\n\n")

    decode.script = stream
    await desk.raw(COMPLETIONS, {**BODY, "n": 2})
    record = await desk.record()
    assert (record.path_reason, record.completion_tokens, record.tpot_ms) == ("n", 4, None)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_pull_that_waited_for_the_lease_is_named(
    desk: Desk, rogues: Rogues, stream: bool
) -> None:
    _, decode = await pair(desk, rogues, lease_s=0.2)
    waits = [0.5, 0.0, 0.5]

    async def stalled(seen: Seen) -> None:
        wait = waits.pop(0)
        await asyncio.sleep(wait)
        if stream:
            await whole_text(seen)
        else:
            choice = {"index": 0, "text": "x", "finish_reason": "stop"}
            await seen.json({"choices": [choice], "metrics": {"queue_time_ms": wait * 1000}})

    decode.script = prefill_then(stalled)
    notes = []
    for count in range(1, 4):
        await desk.raw(COMPLETIONS, {**BODY, "stream": stream})
        record = await desk.record(count)
        assert (record.path, record.outcome, record.legs[1].error) == (Path.PD, Outcome.OK, "")
        notes.append(record.legs[1].note)
    assert notes[0].startswith("KV pull stalled until the lease ended: 0.5 s to the first token")
    assert notes[0].endswith("lease 0.2 s; first pull of this pair")
    assert notes[1] == ""
    assert notes[2].endswith("lease 0.2 s")


async def test_open_requests_are_counted_by_path(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await pair(desk, rogues)
    gate = asyncio.Event()

    async def wait(seen: Seen) -> None:
        await gate.wait()
        await whole_text(seen)

    decode.script = wait
    lacking = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.paths == {"pd": 1})
    await until(lambda: len(decode.seen) == 1)
    prefill.script = prefill_then(wait, params=None)
    several = [asyncio.ensure_future(desk.complete(n=2)), asyncio.ensure_future(desk.complete())]
    await until(lambda: desk.plane.load.paths == {"pd": 1, "aggregated": 2})
    await desk.push(Mode.CHUNKED)
    prefill.script = wait
    chunked = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.paths == {"pd": 1, "aggregated": 2, "chunked": 1})
    gate.set()
    await asyncio.gather(lacking, chunked, *several)
    await until(lambda: desk.plane.load.paths == {})
    await until(lambda: bool(desk.loads) and desk.loads[-1].paths == {})


async def test_what_was_not_handed_over_counts_no_kv(desk: Desk, rogues: Rogues) -> None:
    """Prefill did its part, decode broke: the request ends up whole on another instance."""
    _, decode = await pair(desk, rogues)
    other = await rogues("d1")
    await desk.push(pairs=[("p0", "d0")])

    async def fail(seen: Seen) -> None:
        await seen.json({"error": {"message": "no KV"}}, 500)

    decode.script = fail
    assert (await desk.complete())[0] == 200
    record = await desk.record()
    assert (record.path, record.retries, len(other.seen)) == (Path.AGGREGATED, 1, 1)
    assert (record.remote_tokens, record.params_age_ms) == (None, None)


async def test_a_role_alone_waits_for_its_first_token(desk: Desk, rogues: Rogues) -> None:
    """Before a token another engine may take over, and the client must not notice."""
    _, first = await pair(desk, rogues)
    second = await rogues("d1")
    await desk.push()
    role = compact({"delta": {"role": "assistant", "content": ""}, "finish_reason": None})
    token = compact({"delta": {"content": "x"}, "finish_reason": "stop"})

    async def die(seen: Seen) -> None:
        await seen.send(HEAD)
        await seen.chunks(role)
        seen.die()

    async def serve(seen: Seen) -> None:
        await seen.events(role, token, b"data: [DONE]\n\n")

    first.script, second.script = die, serve
    body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    assert await desk.raw(CHAT, body) == role + token + b"data: [DONE]\n\n"
    record = await desk.record()
    assert (record.retries, record.completion_tokens) == (1, 1)
