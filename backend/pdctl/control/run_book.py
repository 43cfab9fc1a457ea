"""Applied plans, kept: followed while they run, stored as they advance, taken up after a restart.

Law: a run is stored in the transaction that makes its fleet the desired one, so no crash can leave
one without the other. How far it is may be stored late; what the fleet shows then counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.runs import RESUMED, Run
from pdctl.domain.errors import NotFoundError
from pdctl.domain.events import Event, EventKind
from pdctl.domain.runs import RunRecord, RunState
from pdctl.ports import Clock, Store

log = logging.getLogger(__name__)
KEEP = 200
"""Newest runs held in memory; the store has more."""


@dataclass(slots=True)
class RunBook:
    """The runs of this fleet."""

    state: FleetState
    feed: Feed
    clock: Clock
    store: Store
    _runs: dict[str, Run] = field(default_factory=dict)
    _held: set[str] = field(default_factory=set)
    """Those that an operator is ending."""
    _judging: bool = False
    _failing: bool = False

    def recall(self, newest_first: Iterable[RunRecord], why: str) -> None:
        """Take up what an earlier control plane had under way.

        `why` is what made the present revision: it explains the end of what wanted another.
        """
        desired = self.state.fleet.desired
        for record in reversed(list(newest_first)):
            run = self._runs[record.id] = Run(record)
            if not run.running:
                continue
            if record.revision == desired.revision:
                run.resume()
                self._tell(run, "resumed", RESUMED)
            else:
                told = f"revision {desired.revision} took its place ({why})"
                run.end(RunState.CANCELLED, self.clock.now(), told)
                self._tell(run)

    def begin(self, record: RunRecord) -> None:
        """Follow a run that is stored already."""
        self._runs[record.id] = Run(record)
        while len(self._runs) > KEEP:
            del self._runs[next(iter(self._runs))]
        self.judge()

    def close(self, record: RunRecord) -> None:
        """It was ended, and is stored so."""
        self._runs[record.id] = run = Run(record)
        self._tell(run)

    @contextmanager
    def held(self, id_: str) -> Iterator[None]:
        """Nobody else ends it meanwhile: storing takes time, and a run has one end."""
        self._held.add(id_)
        try:
            yield
        finally:
            self._held.discard(id_)

    def all(self) -> list[RunRecord]:
        """Those in memory, newest first."""
        self.judge()
        return [run.record for run in reversed(self._runs.values())]

    def get(self, id_: str) -> RunRecord:
        """One in memory; NotFoundError when there is none."""
        self.judge()
        if (found := self._runs.get(id_)) is None:
            raise NotFoundError(
                "no_such_operation", f"There is no operation {id_!r}.",
                "`pdctl operations` lists them.",
            )  # fmt: skip
        return found.record

    async def find(self, id_: str) -> RunRecord:
        """One, however old; NotFoundError when there is none."""
        try:
            return self.get(id_)
        except NotFoundError:
            if (found := await self.store.run(id_)) is None:
                raise
            return found

    async def page(self, before: int | None, limit: int) -> list[RunRecord]:
        """Newest first; only those whose revision is below `before`."""
        stored = {one.id: one for one in await self.store.runs(before=before, limit=limit)}
        held = {one.id: one for one in self.all() if before is None or one.revision < before}
        return sorted((stored | held).values(), key=lambda one: -one.revision)[:limit]

    def hear(self, event: Event) -> None:
        """A fact. The picture of the fleet follows it, so it is looked at a moment later."""
        running = [run for run in self._runs.values() if run.running]
        for run in running:
            run.see(event)
        if running and not self._judging:
            self._judging = True
            asyncio.get_running_loop().call_soon(self.judge)

    def judge(self) -> None:
        """Look which are over."""
        self._judging = False
        for id_, run in self._runs.items():
            if id_ in self._held:
                continue
            # Until adoption is over, an instance that is not there may just not have been found.
            known = self.state.adopted or not run.record.resumed
            if known and run.judge(self.state.fleet, self.clock.now()):
                self._tell(run)

    async def save(self) -> None:
        """Store what has moved since; what the store refuses is kept for the next time."""
        moved = [run for run in self._runs.values() if run.unsaved]
        for run in moved:
            run.unsaved = False
        try:
            if moved:
                await self.store.save_runs([run.record for run in moved])
            self._failing = False
        except Exception as error:
            for run in moved:
                run.unsaved = True
            if not self._failing:
                log.warning("operations cannot be stored, keeping them in memory: %s", error)
            self._failing = True

    def _tell(self, run: Run, outcome: str = "", message: str = "") -> None:
        record = run.record
        data = {
            "verb": "operation", "actor": record.actor, "source": record.source,
            "outcome": outcome or record.state.value, "message": message or record.message,
            **run.summary(),
        }  # fmt: skip
        self.feed.publish(EventKind.OPERATION, "fleet", data)


async def take_up(state: FleetState, runs: RunBook, store: Store) -> None:
    """What operators asked of an earlier control plane and it had not finished."""
    state.set_wishes(await store.load_wishes())
    present = await store.revision(state.fleet.desired.revision)
    runs.recall(await store.runs(limit=KEEP), present.reason if present else "")
