"""Latency by minute: windows add up over restarts, failures and the hour that memory holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.control.latency import LatencyBook
from pdctl.control.minutes import Minutes
from pdctl.domain.errors import NotFoundError, OperatorError
from pdctl.domain.minutes import Mark
from pdctl.tasks import settle, spawn
from tests.control.test_latency import finished
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_store import MemoryStore


@asynccontextmanager
async def running(
    clock: VirtualClock, store: MemoryStore
) -> AsyncIterator[tuple[LatencyBook, Minutes]]:
    """One life of a control plane over a store that outlives it."""
    book = LatencyBook(clock)
    minutes = Minutes(book, store, clock, keep_days=1.0)
    task = spawn(minutes.run(), name="minutes-under-test")
    try:
        await asyncio.sleep(0)
        yield book, minutes
    finally:
        await settle(task)


async def counted(minutes: Minutes, since: float, until: float, by: str = "all") -> int:
    found = (await minutes.view(by, since, until)).get("e2e")
    return 0 if found is None else found.total


async def test_a_window_spans_a_restart_and_counts_each_request_once() -> None:
    clock, store = VirtualClock(), MemoryStore()
    began = clock.now()
    for life in range(3):
        async with running(clock, store) as (book, minutes):
            for step in range(9):
                book.add(finished(10.0 + step))
                await clock.advance(17.0)
                now = clock.now()
                assert await counted(minutes, began, now) == life * 9 + step + 1
    assert sum(one.counts["e2e"].total for one in store.kept_minutes if one.by == "all") == 27


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 400), st.booleans()), min_size=1, max_size=25))
async def test_every_request_of_a_window_is_in_it_whatever_the_store_did(
    steps: list[tuple[float, bool]],
) -> None:
    clock, store = VirtualClock(), MemoryStore()
    async with running(clock, store) as (book, minutes):
        told: list[float] = []
        for pause, failing in steps:
            store.failing = failing
            book.add(finished(5.0))
            told.append(clock.now())
            await clock.advance(pause)
        store.failing = False
        now = clock.now()
        assert await counted(minutes, told[0], now + 1) == len(told)
        middle = told[len(told) // 2]
        sure = sum(at >= middle for at in told)
        most = sum(at >= middle - 120 for at in told)
        assert sure <= await counted(minutes, middle, now + 1) <= most


async def test_what_is_older_than_an_hour_comes_from_the_store_until_it_is_dropped() -> None:
    clock, store = VirtualClock(), MemoryStore()
    async with running(clock, store) as (book, minutes):
        began = clock.now()
        book.add(finished(7.0))
        await clock.advance(3 * 3600)
        assert book.view("e2e", "all", 3600).total == 0
        assert await counted(minutes, began, clock.now()) == 1
        await clock.advance(86_400)
        book.add(finished(7.0))
        await clock.advance(120)
        assert await counted(minutes, began, clock.now()) == 1, "a day is kept here"


async def test_instances_are_not_kept_and_that_is_said() -> None:
    minutes = Minutes(LatencyBook(VirtualClock()), MemoryStore(), VirtualClock())
    with pytest.raises(OperatorError, match="not kept by minute"):
        await minutes.view("instance:decode-0", 0.0, 1.0)


async def test_moments_are_durations_dates_and_marks() -> None:
    clock, store = VirtualClock(), MemoryStore()
    minutes = Minutes(LatencyBook(clock), store, clock)
    await store.put_mark(Mark("before", 123.5, "me"))
    assert await minutes.moment("90m") == clock.now() - 5400
    assert await minutes.moment("before") == 123.5
    assert await minutes.moment("2026-01-02T00:00:00Z") == 1767312000.0
    with pytest.raises(NotFoundError, match="no mark"):
        await minutes.moment("bevore")
