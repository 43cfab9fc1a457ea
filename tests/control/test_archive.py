"""Durable facts reach the store, whatever the store and the feed are going through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from pdctl.control.archive import Archive
from pdctl.control.feed import Feed
from pdctl.domain.events import Event, EventKind
from pdctl.tasks import settle, spawn
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_store import MemoryStore


@asynccontextmanager
async def archived(store: MemoryStore, feed: Feed, clock: VirtualClock) -> AsyncIterator[None]:
    """An archive at work; leaving ends it as a shutdown does."""
    archive = Archive(feed, store, clock, keep_events=50)
    task = spawn(archive.run(), name="archive-under-test")
    await clock.settle()
    try:
        yield
    finally:
        await settle(task)


def seqs(store: MemoryStore) -> list[int]:
    return [event.seq for event in store.facts]


async def test_durable_facts_are_written_and_samples_are_not() -> None:
    clock, store = VirtualClock(), MemoryStore()
    feed = Feed(clock)
    feed.publish(EventKind.NOTICE, "of an earlier control plane")
    async with archived(store, feed, clock):
        feed.publish(EventKind.NOTICE, "fleet")
        feed.publish(EventKind.REQUEST_FINISHED, "r")
        await clock.advance(1)
        assert seqs(store) == [2]
        feed.publish(EventKind.NOTICE, "fleet")
    assert seqs(store) == [2, 4], "what is pending at the end is written"


async def test_a_write_cut_by_the_end_is_written_again() -> None:
    class Slow(MemoryStore):
        first = True

        async def add_events(self, events: Sequence[Event]) -> None:
            if self.first:
                self.first = False
                await asyncio.sleep(3600)
            await super().add_events(events)

    clock, store = VirtualClock(), Slow()
    feed = Feed(clock)
    async with archived(store, feed, clock):
        feed.publish(EventKind.NOTICE, "fleet")
        await clock.advance(1)
        feed.publish(EventKind.NOTICE, "fleet")
    assert seqs(store) == [1, 2]


async def test_what_a_failing_store_refused_is_kept_up_to_a_bound() -> None:
    clock, store = VirtualClock(), MemoryStore()
    feed = Feed(clock)
    async with archived(store, feed, clock):
        store.failing = True
        for _ in range(60):
            feed.publish(EventKind.NOTICE, "fleet")
        await clock.advance(2)
        store.failing = False
        await clock.advance(1)
        assert seqs(store) == list(range(11, 61))


async def test_facts_that_went_by_too_fast_come_from_the_ring_or_are_missed_aloud(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, store = VirtualClock(), MemoryStore()
    feed = Feed(clock, ring=8, backlog=2)
    async with archived(store, feed, clock):
        for _ in range(6):
            feed.publish(EventKind.NOTICE, "fleet")
        await clock.advance(1)
        assert seqs(store) == [1, 2, 3, 4, 5, 6]
        assert not caplog.records
        for _ in range(20):
            feed.publish(EventKind.NOTICE, "fleet")
        await clock.advance(1)
        assert seqs(store)[6:] == list(range(19, 27))
        assert "12 events went by" in caplog.text
