"""The seam: tables in, events out; modes switch under running streams; a stop is honest."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import COMPLETIONS, Desk, read_some
from tests.gateway.rogue import Seen, completion_events, hang

from pdctl.adapters.clock import SystemClock
from pdctl.domain.errors import OperatorError
from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode
from pdctl.gateway.plane import LocalDataPlane

STREAM: dict[str, Any] = {"model": "tiny", "prompt": "a river", "stream": True}


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("n", {"n": 2}),
        ("list_prompt", {"prompt": ["a", "b"]}),
        ("prompt_logprobs", {"prompt_logprobs": 1}),
        ("echo_logprobs", {"echo": True, "logprobs": 1}),
    ],
)
async def test_what_pd_cannot_serve_is_aggregated_with_its_reason(
    desk: Desk, engines: Engines, reason: str, fields: dict[str, Any]
) -> None:
    await engines("p0")
    await engines("d0")
    await desk.push()
    assert (await desk.complete(max_tokens=3, **fields))[0] == 200
    record = await desk.record()
    assert (record.path, record.path_reason) == (Path.AGGREGATED, reason)
    assert [leg.instance for leg in record.legs] == ["d0"]


async def test_modes_switch_while_streams_run(desk: Desk, engines: Engines) -> None:
    await engines("p0", speed=1.0)
    await engines("d0", speed=1.0)
    await desk.push(Mode.CHUNKED)
    body = {**STREAM, "max_tokens": 360}
    reference = _text(await desk.raw(COMPLETIONS, body))
    await desk.push(Mode.PD)
    early = [await _begin(desk, body) for _ in range(8)]
    await desk.push(Mode.CHUNKED)
    late = [await _begin(desk, body) for _ in range(4)]
    await desk.push(Mode.PD)
    assert len(desk.records) == 1
    answers = [_text(await one) for one in (*early, *late)]
    assert answers == [reference] * 12
    await until(lambda: len(desk.records) == 13)
    assert {one.outcome for one in desk.records} == {Outcome.OK}
    assert sorted(one.path for one in desk.records) == [Path.CHUNKED] * 5 + [Path.PD] * 8
    assert all(one.mode == ("pd" if one.path is Path.PD else "chunked") for one in desk.records)


async def _begin(desk: Desk, body: dict[str, Any]) -> asyncio.Future[bytes]:
    """A stream whose first event has come."""
    answer = await desk.client.post(COMPLETIONS, json=body)
    first = await read_some(answer, b"\n\n")

    async def rest() -> bytes:
        return first + await answer.read()

    return asyncio.ensure_future(rest())


def _text(data: bytes) -> bytes:
    """The stream without what names the request."""
    assert data.endswith(b"data: [DONE]\n\n")
    return b"".join(part.split(b'"choices"')[-1].split(b'"finish')[0] for part in data.split(b"\n"))


async def test_load_is_told_and_a_drained_instance_at_once(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")
    go = asyncio.Event()

    async def wait(seen: Seen) -> None:
        await go.wait()
        await seen.events(*completion_events("x"))

    decode.script = wait
    await desk.push(Mode.CHUNKED)
    task = asyncio.ensure_future(desk.raw(COMPLETIONS, STREAM))
    await until(lambda: bool(desk.loads) and desk.loads[-1].inflight == {"d0": 1})
    table = await desk.push(Mode.CHUNKED, draining=["d0"])
    await until(lambda: desk.loads[-1].table_seq == table.seq)
    assert desk.loads[-1].inflight == {"d0": 1}
    go.set()
    await task
    await until(lambda: desk.loads[-1].inflight == {})
    assert desk.loads[-1].table_seq == table.seq


async def test_prefill_counts_as_busy_until_its_kv_is_pulled(desk: Desk, rogues: Rogues) -> None:
    await rogues("p0")
    decode = await rogues("d0")
    decode.script = hang
    await desk.push(max_inflight_per_instance=1)
    task = asyncio.ensure_future(desk.complete())
    await until(lambda: len(decode.seen) == 1)
    assert desk.plane.load.inflight == {"p0": 1, "d0": 1}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await desk.idle()


async def test_a_stop_lets_streams_end(desk: Desk, engines: Engines) -> None:
    await engines("d0")
    await desk.push(Mode.CHUNKED)
    async with desk.client.post(COMPLETIONS, json={**STREAM, "max_tokens": 50}) as answer:
        stop = asyncio.ensure_future(desk.plane.stop(20.0))
        assert (await answer.read()).endswith(b"[DONE]\n\n")
        await stop
    assert (await desk.record()).outcome is Outcome.OK
    with pytest.raises(aiohttp.ClientConnectionError):
        await desk.complete()


async def test_a_stop_cuts_what_does_not_end_and_says_so(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")

    async def one_token(seen: Seen) -> None:
        if seen.body["prompt"] == "silent":
            await hang(seen)
        await seen.events(*completion_events("Hello", done=False), end=False)
        await hang(seen)

    decode.script = one_token
    await desk.push(Mode.CHUNKED)
    silent = asyncio.ensure_future(desk.complete(prompt="silent"))
    async with desk.client.post(COMPLETIONS, json=STREAM) as answer:
        await read_some(answer, b"Hello")
        await until(lambda: len(decode.seen) == 2)
        await desk.plane.stop(0.05)
        rest = await answer.read()
    assert b'"ServiceUnavailableError"' in rest
    assert b"[DONE]" not in rest
    status, body = await silent
    assert (status, body["error"]["message"]) == (503, "The router is stopping.")
    await until(lambda: len(desk.records) == 2)
    await until(lambda: all(one.gone.is_set() for one in decode.seen))


async def test_events_end_when_the_plane_has_stopped() -> None:
    plane = LocalDataPlane("127.0.0.1", 0, clock=SystemClock())
    await plane.start()
    await plane.stop(0.0)
    assert [event async for event in plane.events()] == []


async def test_a_taken_port_is_a_sentence(desk: Desk) -> None:
    port = int(desk.plane.url.rsplit(":", 1)[1])
    second = LocalDataPlane("127.0.0.1", port, clock=SystemClock())
    with pytest.raises(OperatorError, match=f"cannot listen on 127.0.0.1:{port}"):
        await second.start()
    await second.stop(0.0)


async def test_a_bug_of_ours_is_a_500_and_leaves_nothing_open(
    desk: Desk, rogues: Rogues, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rogues("p0")
    await rogues("d0")
    await desk.push()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pdctl.connectors.nixl.CONNECTOR.decode_body", broken, raising=True)
    status, body = await desk.complete()
    assert (status, body["error"]["message"]) == (500, "The router failed.")
    record = await desk.record()
    assert (record.status, record.error) == (500, "the router failed")
    await desk.idle()
