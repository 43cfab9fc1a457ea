"""Who may write here, and who holds what of the machine: one owner each, by constraint.

Law: whoever has lost the database writes no lease any more, and so starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import bindparam, delete, insert, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from pdctl.adapters.store import codec
from pdctl.adapters.store.database import Database, readable
from pdctl.adapters.store.tables import InstanceRow, LeaseRow, OwnerRow
from pdctl.domain.errors import ConflictError
from pdctl.domain.instance import Instance, Vitals
from pdctl.domain.leases import Lease
from pdctl.domain.owner import Owner, refuse_second

_OWNER = 1
"""The key of the only row."""
_ADVISORY_LOCK = 0x7064636F
"""PostgreSQL advisory lock of taking ownership ("pdco")."""
_CLOCKS = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
}
"""Wall time, UTC seconds."""


class TenureTables(Database):
    """The owner of the database, its instances, and what they hold."""

    _owner: str | None = None
    """The name by which we own it; None: nobody asked us to."""

    async def own(self, me: Owner, gone: Callable[[Owner], bool]) -> None:
        """Become the only writer; ConflictError names a living owner. `gone` knows its process."""
        async with self._write() as db:
            if self._dialect is postgresql:
                await db.execute(
                    text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK}
                )
            now = await self._now(db)
            row = (await db.execute(select(OwnerRow))).first()
            if row is not None:
                held = codec.decode(Owner, row.who)
                refuse_second(held, now - row.beat, me, gone=gone(held))
            await db.execute(delete(OwnerRow))
            await db.execute(insert(OwnerRow).values(key=_OWNER, name=me.name, beat=now, who=me))
        self._owner = me.name

    async def beat(self, me: Owner) -> bool:
        """A sign of life; False when another owns the database by now."""
        async with self._write() as db:
            mine = update(OwnerRow).where(col(OwnerRow.name) == me.name)
            found = await db.execute(mine.values(beat=await self._now(db), who=me))
            return bool(found.rowcount)

    async def disown(self, me: Owner) -> None:
        """Leave it to whoever comes next; it need not wait."""
        async with self._write() as db:
            await db.execute(delete(OwnerRow).where(col(OwnerRow.name) == me.name))

    async def save_instances(
        self, instances: Sequence[Instance], at: float, held: Sequence[Lease] = ()
    ) -> None:
        """Replace the last known instances and what they hold, or neither.

        ConflictError when another pdctl owns the database; `held` names each thing once.
        """
        rows = [
            {
                "id": one.id, "pool": one.pool, "phase": one.phase.value, "at": at,
                "position": position, "state": _storable(one),
            }
            for position, one in enumerate(instances)
        ]  # fmt: skip
        async with self._write() as db:
            await self._refuse_if_lost(db)
            await db.execute(delete(InstanceRow))
            if rows:
                await db.execute(insert(InstanceRow), rows)
            await _put_leases(db, held)

    async def load_instances(self) -> list[Instance]:
        """The last known instances, in the order in which they were saved."""
        async with self._read() as db:
            found = await db.scalars(
                select(col(InstanceRow.state)).order_by(col(InstanceRow.position))
            )
            return list(readable(Instance, found))

    async def _refuse_if_lost(self, db: AsyncConnection) -> None:
        """The row stays locked until we have written, so nobody takes over meanwhile."""
        if self._owner is None:
            return
        row = (await db.execute(select(OwnerRow).with_for_update(read=True))).first()
        if row is None or row.name != self._owner:
            who = codec.decode(Owner, row.who) if row is not None else "nobody yet"
            raise ConflictError(
                "database_lost", f"This pdctl has lost its database; it belongs to {who}.",
                "Look which of the two should run, and stop the other.",
            )  # fmt: skip

    async def _now(self, db: AsyncConnection) -> float:
        """One clock for all who may own it: the clocks of two machines differ."""
        return float(await db.scalar(text(_CLOCKS[self._engine.dialect.name])))


async def _put_leases(db: AsyncConnection, held: Sequence[Lease]) -> None:
    """Only what differs is written: at each start of an instance that is a row or three."""
    rows = (await db.execute(select(LeaseRow))).all()
    before = {(row.kind, row.value): (row.instance, row.generation) for row in rows}
    after = {(one.kind, one.value): (str(one.instance), one.generation) for one in held}
    gone = [key for key, holder in before.items() if after.get(key) != holder]
    if gone:
        one = delete(LeaseRow).where(
            col(LeaseRow.kind) == bindparam("k"), col(LeaseRow.value) == bindparam("v")
        )
        await db.execute(one, [{"k": kind, "v": value} for kind, value in gone])
    new = [
        {"kind": key[0], "value": key[1], "instance": holder[0], "generation": holder[1]}
        for key, holder in after.items()
        if before.get(key) != holder
    ]
    if new:
        try:
            await db.execute(insert(LeaseRow), new)
        except IntegrityError as error:
            raise ConflictError(
                "lease_taken", "A port or device was leased to another start meanwhile.",
                "Is a second pdctl using this database?",
            ) from error  # fmt: skip


def _storable(one: Instance) -> Instance:
    """Without what only this process understands: monotonic times."""
    return replace(one, retry_at=None, drain_deadline=None, vitals=Vitals())
