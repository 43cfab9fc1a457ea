"""The queue to the control plane: bounded, in order, loads coalesced."""

from __future__ import annotations

import asyncio

from tests.fakes.waiting import until

from pdctl.domain.handoff import Load, RouterEvent, Suspect
from pdctl.domain.ids import InstanceId
from pdctl.gateway import outbox as module
from pdctl.gateway.outbox import Outbox


def suspect(number: int) -> Suspect:
    return Suspect(InstanceId(f"d{number}"), 1, "why")


async def drain(box: Outbox) -> list[RouterEvent]:
    box.close()
    return [event async for event in box.events()]


async def test_the_oldest_is_dropped_and_counted() -> None:
    box = Outbox(lambda: Load(1), capacity=3)
    for number in range(5):
        box.put(suspect(number))
    assert box.dropped == 2
    assert await drain(box) == [suspect(2), suspect(3), suspect(4)]


async def test_of_loads_only_the_newest_is_told_and_before_all_that_waits() -> None:
    seq = iter(range(1, 9))
    box = Outbox(lambda: Load(next(seq)))
    for number in range(3):
        box.load_changed(now=True)
        box.put(suspect(number))
    assert await drain(box) == [Load(1), suspect(0), suspect(1), suspect(2)]


async def test_nobody_reads_and_nothing_grows() -> None:
    box = Outbox(lambda: Load(1), capacity=3)
    for number in range(50):
        box.put(suspect(number))
        box.load_changed(now=True)
    assert len(await drain(box)) == 4


async def test_many_changes_are_one_load() -> None:
    calls: list[float] = []
    box = Outbox(lambda: Load(1))

    async def read() -> None:
        async for _ in box.events():
            calls.append(asyncio.get_running_loop().time())  # noqa: PERF401 - seen one by one

    reader = asyncio.ensure_future(read())
    begun = asyncio.get_running_loop().time()
    for _ in range(1000):
        box.load_changed()
    assert not calls
    await until(lambda: len(calls) == 1)
    assert calls[0] - begun >= module.LOAD_INTERVAL_S * 0.9
    box.load_changed()
    await until(lambda: len(calls) == 2)
    assert calls[1] - calls[0] >= module.LOAD_INTERVAL_S * 0.9
    box.close()
    await reader


async def test_a_reader_that_waits_is_woken() -> None:
    box = Outbox(lambda: Load(1))
    got: list[RouterEvent] = []

    async def read() -> None:
        async for event in box.events():
            got.append(event)  # noqa: PERF401 - seen one by one

    task = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    box.put(suspect(1))
    await until(lambda: got == [suspect(1)])
    box.close()
    await task
