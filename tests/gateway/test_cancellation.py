"""A client that leaves stops the work at once, wherever the request is."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from tests.fakes.waiting import until
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import COMPLETIONS, Desk, read_some
from tests.gateway.rogue import Seen, completion_events, hang, prefill_then

from pdctl.domain.handoff import Outcome
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import Target
from pdctl.domain.topology import Mode, Role
from pdctl.gateway.upstream import Call, LegError, Upstream
from pdctl.routing.signals import Failure

BODY: dict[str, Any] = {"model": "tiny", "prompt": "hello"}


def begin(desk: Desk, **fields: Any) -> asyncio.Task[Any]:
    """A client of its own connection, so that cancelling it closes the connection."""

    async def ask() -> None:
        async with (
            aiohttp.ClientSession(desk.plane.url) as session,
            session.post(COMPLETIONS, json={**BODY, **fields}) as answer,
        ):
            await answer.read()

    return asyncio.ensure_future(ask())


async def leave(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def gone(desk: Desk, count: int = 1) -> str:
    record = await desk.record(count)
    assert (record.outcome, record.status) == (Outcome.CLIENT_GONE, 499)
    await desk.idle()
    return record.error


@pytest.mark.parametrize("stream", [True, False])
async def test_while_prefill_runs(desk: Desk, rogues: Rogues, stream: bool) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    prefill.script = hang
    await desk.push()
    client = begin(desk, stream=stream)
    await until(lambda: len(prefill.seen) == 1)
    await leave(client)
    await until(prefill.seen[0].gone.is_set)
    assert await gone(desk) == "client left while prefill"
    assert not decode.seen


@pytest.mark.parametrize("stream", [True, False])
async def test_while_decode_has_not_answered(desk: Desk, rogues: Rogues, stream: bool) -> None:
    await rogues("p0")
    decode = await rogues("d0")
    decode.script = hang
    await desk.push()
    client = begin(desk, stream=stream)
    await until(lambda: len(decode.seen) == 1)
    await leave(client)
    await until(decode.seen[0].gone.is_set)
    assert await gone(desk) == "client left while decode"
    assert len(decode.seen) == 1


async def test_while_a_stream_is_silent(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")

    async def one_token(seen: Seen) -> None:
        await seen.events(*completion_events("Hello", done=False), end=False)
        await hang(seen)

    decode.script = one_token
    await desk.push(Mode.CHUNKED)
    async with aiohttp.ClientSession(desk.plane.url) as session:
        answer = await session.post(COMPLETIONS, json={**BODY, "stream": True})
        await read_some(answer, b"Hello")
        answer.close()
    await until(decode.seen[0].gone.is_set)
    assert await gone(desk) == "client left while answering"
    assert desk.records[0].ttft_ms is not None


async def test_while_a_stream_flows(desk: Desk, engines: Engines) -> None:
    decode = await engines("d0", speed=1.0)
    await desk.push(Mode.CHUNKED)
    client = begin(desk, stream=True, max_tokens=5000)
    await until(lambda: decode.scheduler.has_work)
    await leave(client)
    await until(lambda: not decode.scheduler.has_work)
    await gone(desk)


async def test_while_waiting_in_line(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")
    decode.script = hang
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=1)
    first = begin(desk)
    await until(lambda: len(decode.seen) == 1)
    second = begin(desk)
    await until(lambda: desk.plane.load.queued == 1)
    await leave(second)
    await until(lambda: desk.plane.load.queued == 0)
    record = await desk.record()
    assert (record.outcome, record.error) == (Outcome.CLIENT_GONE, "client left while routing")
    assert record.legs == ()
    await leave(first)
    await gone(desk, 2)
    assert len(decode.seen) == 1


async def test_kv_that_decode_never_heard_of_is_released(desk: Desk, rogues: Rogues) -> None:
    """Between the legs: the params are known, decode's connection is not open yet."""
    await rogues("p0")
    decode = await rogues("d0")
    await desk.push()
    backlog = asyncio.Event()

    async def slow(seen: Seen) -> None:
        await prefill_then(hang)(seen)
        backlog.set()

    prefill: Any = desk.engines["p0"]
    prefill.script = slow
    upstream = desk.plane._services
    assert upstream is not None
    send = upstream.upstream.send
    stuck = asyncio.Event()

    async def never_connects(call: Any) -> Any:
        if call.target.id == "d0" and not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return await send(call)

    upstream.upstream.send = never_connects  # type: ignore[method-assign]
    client = begin(desk)
    await stuck.wait()
    await leave(client)
    await until(lambda: len(decode.seen) == 1)
    released = decode.seen[0].body
    assert released["model"] == "pdctl-releases-kv"
    assert released["kv_transfer_params"]["remote_engine_id"] == "rogue"
    await gone(desk)


async def test_a_hundred_that_leave_leave_nothing(desk: Desk, engines: Engines) -> None:
    prefill, decode = await engines("p0", speed=1.0), await engines("d0", speed=1.0)
    await desk.push(max_inflight_per_instance=8)
    clients = [begin(desk, stream=bool(i % 2), max_tokens=2000) for i in range(100)]
    await until(lambda: decode.scheduler.has_work)
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    await until(lambda: len(desk.records) == 100)
    await desk.idle()
    await until(lambda: not decode.scheduler.has_work and not prefill.scheduler.has_work)
    assert {one.outcome for one in desk.records} == {Outcome.CLIENT_GONE}


async def test_a_pool_that_is_closed_fails_legs_in_words() -> None:
    """Freeing KV may come after the router's end: that is a failed leg, not a bug."""
    upstream = Upstream()
    await upstream.close()
    target = Target(InstanceId("d0"), "d", Role.DECODE, "127.0.0.1", 1, 1, accepts=True)
    call = Call(target, "POST", COMPLETIONS, CIMultiDict(), None, connect_s=1.0, first_byte_s=1.0)
    with pytest.raises(LegError) as caught:
        await upstream.send(call)
    assert caught.value.failed.how is Failure.STOPPED
