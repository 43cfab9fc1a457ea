"""Latency by minute, and the moments that operators named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sqlalchemy import delete, insert, select
from sqlmodel import col

from pdctl.adapters.store.codec import plain
from pdctl.adapters.store.database import Database
from pdctl.adapters.store.tables import MarkRow, MinuteRow
from pdctl.domain.minutes import Mark, Minute, packed, unpacked

log = logging.getLogger(__name__)


class MinuteTables(Database):
    """`control.minutes.MinuteStore` over SQL."""

    async def add_minutes(self, minutes: Sequence[Minute], *, older_than: float) -> None:
        """Append them, and drop those that began before `older_than` (wall seconds)."""
        rows = [
            {"at": one.at, "grouped": plain(one.by)[:300], "counts": packed(one.counts)}
            for one in minutes
        ]
        async with self._write() as db:
            await db.execute(delete(MinuteRow).where(col(MinuteRow.at) < older_than))
            if rows:
                await db.execute(insert(MinuteRow), rows)

    async def minutes(self, by: str, since: float, until: float) -> list[Minute]:
        """Those of one group that began in [since, until), oldest first."""
        at = col(MinuteRow.at)
        wanted = select(at, col(MinuteRow.counts)).where(
            at >= since, at < until, col(MinuteRow.grouped) == plain(by)[:300]
        )
        async with self._read() as db:
            rows = (await db.execute(wanted.order_by(at))).all()
        return await asyncio.to_thread(_read, by, [(row.at, row.counts) for row in rows])

    async def put_mark(self, mark: Mark) -> None:
        """Name a moment; a name that is there already is moved."""
        row = {"name": plain(mark.name), "at": mark.at, "actor": plain(mark.actor)[:256]}
        put = self._dialect.insert(MarkRow).values(row)
        async with self._write() as db:
            await db.execute(put.on_conflict_do_update(index_elements=["name"], set_=row))

    async def drop_mark(self, name: str) -> bool:
        """Forget a moment; False when it was not there."""
        async with self._write() as db:
            gone = await db.execute(delete(MarkRow).where(col(MarkRow.name) == plain(name)))
            return bool(gone.rowcount)

    async def marks(self) -> list[Mark]:
        """All of them, newest first."""
        wanted = select(col(MarkRow.name), col(MarkRow.at), col(MarkRow.actor))
        async with self._read() as db:
            found = (await db.execute(wanted.order_by(col(MarkRow.at).desc()))).all()
        return [Mark(row.name, row.at, row.actor) for row in found]


def _read(by: str, rows: Sequence[tuple[float, bytes]]) -> list[Minute]:
    found = []
    for at, counts in rows:
        try:
            found.append(Minute(at, by, unpacked(counts)))
        except ValueError as error:
            log.warning("a stored minute cannot be read and is left out: %s", error)
    return found
