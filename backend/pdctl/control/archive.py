"""Writes facts and the progress of operations to the store, in batches, and prunes what is old.

Law: the store may fail or be slow; the feed never waits for it. What could not be written is said.
Operators' verbs do not wait for their batch: the operations log must outlive a sudden end.
"""

from __future__ import annotations

import asyncio
import logging

from pdctl.control.feed import Feed, Reset
from pdctl.control.run_book import RunBook
from pdctl.domain.events import DURABLE, Event, EventKind
from pdctl.ports import Clock, Store
from pdctl.tasks import settle, spawn

log = logging.getLogger(__name__)
BATCH_S = 0.25
PRUNE_S = 600.0


class Archive:
    """One writer of events; run it as a task for the life of the control plane."""

    def __init__(
        self,
        feed: Feed,
        store: Store,
        clock: Clock,
        *,
        keep_events: int,
        runs: RunBook | None = None,
    ) -> None:
        self._feed, self._store, self._clock = feed, store, clock
        self._keep_events = keep_events
        self._runs = runs
        self._pending: list[Event] = []
        self._written = feed.seq
        self._failing = False
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Write until cancelled; what is pending then is written first."""
        async with self._feed.subscribe(self._written) as facts:
            writer = spawn(self._flush_often(), name="event-writer")
            try:
                async for fact in facts:
                    self._take(fact)
                    if isinstance(fact, Event) and fact.kind is EventKind.OPERATION:
                        await self._flush()
            finally:
                await settle(writer)
                self._take(Reset(self._feed.seq))  # what has been published and not been read yet
                await self._flush()

    def _take(self, fact: Event | Reset) -> None:
        if isinstance(fact, Reset):
            # We were slower than the ring of one subscriber; the feed's own ring still has them.
            first = max(self._written, self._feed.oldest - 1)
            if first > self._written:
                log.warning("%d events went by and cannot be stored", first - self._written)
            held = self._feed.since(first) or ()
            self._pending += [one for one in held if one.kind in DURABLE]
        elif fact.kind in DURABLE:
            self._pending.append(fact)
        self._written = max(self._written, fact.seq)

    async def _flush_often(self) -> None:
        pruned = self._clock.monotonic()
        while True:
            await self._clock.sleep(BATCH_S)
            await self._flush()
            if self._clock.monotonic() - pruned >= PRUNE_S:
                pruned = self._clock.monotonic()
                await self._prune()

    async def _flush(self) -> None:
        async with self._writing:
            await self._write()
            if self._runs is not None:
                await self._runs.save()

    async def _write(self) -> None:
        batch = self._pending[:]
        if not batch:
            return
        try:
            await self._store.add_events(batch)
        except Exception as error:
            del self._pending[: -self._keep_events]
            if not self._failing:
                log.warning("events cannot be stored, keeping them in memory: %s", error)
            self._failing = True
        else:
            del self._pending[: len(batch)]  # only now: a write that is cut is written again
            self._failing = False

    async def _prune(self) -> None:
        try:
            await self._store.prune(events=self._keep_events)
        except Exception as error:
            log.warning("old rows could not be pruned: %s", error)
