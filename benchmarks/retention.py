"""A day of requests through the store, by a clock that runs ahead.

The records are plausible ones, decided upon, written and dropped by the code that `pdctl serve`
runs, into a real SQLite file. Only the time of day is made up: 24 hours pass as fast as the disk
takes them, so the store is busier than it would be. Meanwhile questions are asked of it as an
operator does, and how long each takes is measured by the real clock.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.fakes.records import record

from pdctl.adapters.store.repository import SqlStore
from pdctl.app.opened import Stopped
from pdctl.control.retention import LOOK_S, Retention
from pdctl.domain.handoff import Outcome, RequestRecord
from pdctl.domain.keeping import MIB, Keeping
from pdctl.domain.request_query import RequestQuery
from pdctl.tasks import settle, spawn

T = TypeVar("T")
TICK_S = 2.0
FAILED = 0.01
"""Share of requests that went wrong."""
BEGIN = 1.7e9


class RunningAhead(Stopped):
    """A clock that stands where the benchmark puts it; who sleeps lets others go first."""

    async def sleep(self, seconds: float) -> None:
        """At once."""
        del seconds
        await asyncio.sleep(0)


class Asked:
    """Questions put to the store for as long as it is filled, and how long the answers took."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.took: dict[str, list[float]] = {}

    async def run(self) -> None:
        """One question after the other until cancelled."""
        page, store = RequestQuery(limit=50), self._store
        while True:
            newest = await self.timed("newest page", store.requests(page))
            if newest:
                await self.timed("one by id", store.request(newest[-1].id))
            await self.timed("failed ones", store.requests(replace(page, outcome="truncated")))
            await self.timed("slowest page", store.requests(replace(page, slowest=True)))
            await asyncio.sleep(2.0)

    async def timed(self, name: str, asked: Awaitable[T]) -> T:
        """Wait for the answer, and note how long that took (ms)."""
        begun = time.perf_counter()
        answer = await asked
        self.took.setdefault(name, []).append((time.perf_counter() - begun) * 1000)
        return answer


class Day:
    """Requests at an even rate, most of which go well."""

    def __init__(self, rate: int) -> None:
        self.rate, self.seen = rate, 0
        self._rng = Random(1)  # noqa: S311 - the same day every time
        made = [record(self._rng, number, 0.0) for number in range(2000)]
        good = [one for one in made if one.outcome is Outcome.OK]
        bad = [one for one in made if one.outcome is not Outcome.OK]
        self._models = [*good, *bad[: int(len(good) * FAILED)]]

    def until(self, at: float) -> list[RequestRecord]:
        """Those of the tick that ends at `at`."""
        found = []
        for number in range(int(self.rate * TICK_S)):
            base = self._models[self._rng.randrange(len(self._models))]
            name, received = f"chatcmpl-{self.seen + number:032x}", at - TICK_S + number / self.rate
            found.append(replace(base, id=name, received_at=received))
        self.seen += len(found)
        return found


async def fill(hours: float, day: Day, keeping: Keeping, store: SqlStore) -> None:
    """Let the hours pass, and print what is there then."""
    clock, asked = RunningAhead(BEGIN), Asked(store)
    retention, begun, written = Retention(keeping, store, clock), time.perf_counter(), 0
    asking = spawn(asked.run(), name="questions")
    pruned = clock.at
    while clock.at < BEGIN + hours * 3600:
        clock.at += TICK_S
        batch = [one for one in day.until(clock.at) if keeping.wanted(one)]
        await asked.timed("write of a batch", store.add_requests(batch))
        written += len(batch)
        if clock.at - pruned >= LOOK_S:
            pruned = clock.at
            await retention.prune()
            sys.stderr.write(f"\r{(clock.at - BEGIN) / 3600:.1f} h, {written} records stored")
    await settle(asking)
    facts = await store.check()
    say(f"\n{hours:g} h at {day.rate}/s passed in {time.perf_counter() - begun:.0f} s")
    say(f"{day.seen} requests, {written} stored, dropped {dict(retention.dropped)}")
    say(f"{facts['requests']} rows; {facts['bytes'] / MIB:.0f} MiB of {keeping.size / MIB:.0f}")
    say(f"{(facts['bytes'] / max(1, facts['requests'])):.0f} bytes a row in the file, "
        f"{await store.request_bytes() or 0.0:.0f} as derived")  # fmt: skip
    for name, took in asked.took.items():
        took.sort()
        say(f"{name}: p50 {took[len(took) // 2]:.1f} ms, p99 {took[len(took) * 99 // 100]:.1f} ms, "
            f"longest {took[-1]:.1f} ms of {len(took)}")  # fmt: skip


def say(text: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{text}\n")


async def run(hours: float, rate: int, keeping: Keeping, file: Path) -> None:
    """One run over a new database."""
    store = await SqlStore.open(f"sqlite+aiosqlite:///{file}")
    try:
        await fill(hours, Day(rate), keeping, store)
    finally:
        await store.close()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--rate", type=int, default=100, help="Requests a second.")
    parser.add_argument("--sample", type=float, default=0.1)
    parser.add_argument("--mib", type=int, default=Keeping().size // MIB)
    options = parser.parse_args()
    keeping = replace(Keeping(), sample=options.sample, size=options.mib * MIB)
    with tempfile.TemporaryDirectory(prefix="pdctl-retention-") as folder:
        asyncio.run(run(options.hours, options.rate, keeping, Path(folder) / "pdctl.db"))


if __name__ == "__main__":
    main()
