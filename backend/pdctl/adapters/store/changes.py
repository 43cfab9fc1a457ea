"""What was wanted and what is becoming of it: revisions, applied plans, wishes about instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Row, delete, insert, select, true
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from pdctl.adapters.store import codec
from pdctl.adapters.store.codec import plain
from pdctl.adapters.store.database import Database, readable
from pdctl.adapters.store.tables import RevisionRow, RunRow, WishRow
from pdctl.domain.actions import Wishes
from pdctl.domain.errors import ConflictError, OperatorError
from pdctl.domain.ids import InstanceId
from pdctl.domain.runs import RunRecord
from pdctl.domain.topology import FleetSpec
from pdctl.ports import Revision


class ChangeTables(Database):
    """Desired states, and what goes with them."""

    async def save_revision(
        self, fleet: FleetSpec, *, actor: str, reason: str, at: float, run: RunRecord | None = None
    ) -> None:
        """Append the desired state, and with it what becomes of a run; again changes nothing."""
        async with self._write() as db:
            found = await db.scalar(
                select(col(RevisionRow.spec)).where(col(RevisionRow.revision) == fleet.revision)
            )
            if found is None:
                row = {"revision": fleet.revision, "at": at, "actor": plain(actor)[:256]}
                row |= {"reason": plain(reason)[:1024], "spec": fleet}
                await db.execute(insert(RevisionRow).values(row))
            elif codec.decode(FleetSpec, found) != fleet:
                raise ConflictError(
                    "revision_taken",
                    f"Revision {fleet.revision} already holds another desired state.",
                    "Read the fleet again and repeat the change.",
                )
            if run is not None:
                await self._put_run(db, run)

    async def latest_revision(self) -> FleetSpec | None:
        """The last saved desired state."""
        newest = select(col(RevisionRow.spec)).order_by(col(RevisionRow.revision).desc()).limit(1)
        async with self._read() as db:
            found = await db.scalar(newest)
        if found is None:
            return None
        if (fleet := next(readable(FleetSpec, [found]), None)) is None:
            raise OperatorError(
                "revision_unreadable",
                f"The last desired state in {self._where} was written by another pdctl.",
                "Use the newer pdctl, or another PDCTL_STATE_DIR.",
            )
        return fleet

    async def history(self, *, before: int | None = None, limit: int = 50) -> list[Revision]:
        """Saved desired states, newest first; one of another pdctl is left out."""
        number = col(RevisionRow.revision)
        older = true() if before is None else number < before
        async with self._read() as db:
            found = await db.execute(
                select(RevisionRow).where(older).order_by(number.desc()).limit(limit)
            )
            return list(_revisions(found.all()))

    async def revision(self, number: int) -> Revision | None:
        """One of them; None when there is none, or when it was written by another pdctl."""
        async with self._read() as db:
            found = await db.execute(select(RevisionRow).where(col(RevisionRow.revision) == number))
            return next(_revisions(found.all()), None)

    async def save_runs(self, runs: Sequence[RunRecord]) -> None:
        """How far they are now, in one transaction."""
        async with self._write() as db:
            for run in runs:
                await self._put_run(db, run)

    async def runs(self, *, before: int | None = None, limit: int = 50) -> list[RunRecord]:
        """Runs, newest first; only those that want a revision below `before`."""
        number = col(RunRow.revision)
        older = true() if before is None else number < before
        async with self._read() as db:
            wanted = select(col(RunRow.record)).where(older).order_by(number.desc()).limit(limit)
            return list(readable(RunRecord, await db.scalars(wanted)))

    async def run(self, id_: str) -> RunRecord | None:
        """One of them."""
        async with self._read() as db:
            found = await db.scalars(
                select(col(RunRow.record)).where(col(RunRow.id) == plain(id_)[:64])
            )
            return next(readable(RunRecord, found), None)

    async def save_wishes(self, wishes: Wishes) -> None:
        """Replace what is wanted of single starts."""
        rows = [
            {"kind": kind, "instance": id_, "generation": generation}
            for kind, starts in (("restart", wishes.restart), ("clear", wishes.clear))
            for id_, generation in sorted(starts)
        ]
        async with self._write() as db:
            await db.execute(delete(WishRow))
            if rows:
                await db.execute(insert(WishRow), rows)

    async def load_wishes(self) -> Wishes:
        """What was wanted of single starts; those that have ended since do not matter."""
        async with self._read() as db:
            rows = (await db.execute(select(WishRow))).all()
        found: dict[str, set[tuple[InstanceId, int]]] = {"restart": set(), "clear": set()}
        for row in rows:
            found.setdefault(row.kind, set()).add((InstanceId(row.instance), row.generation))
        return Wishes(restart=frozenset(found["restart"]), clear=frozenset(found["clear"]))

    async def _put_run(self, db: AsyncConnection, run: RunRecord) -> None:
        row = {"id": run.id, "revision": run.revision, "state": run.state.value, "record": run}
        put = self._dialect.insert(RunRow).values(row)
        await db.execute(put.on_conflict_do_update(index_elements=["id"], set_=row))


def _revisions(rows: Iterable[Row[Any]]) -> Iterator[Revision]:
    for row in rows:
        for fleet in readable(FleetSpec, [row.spec]):
            yield Revision(fleet, row.actor, row.reason, row.at)
