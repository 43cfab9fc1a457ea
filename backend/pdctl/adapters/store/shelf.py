"""Makes room among the stored requests, in short transactions.

Rows are numbered in the order of finishing and go from the old end, so the numbers of the ends say
how many there are without counting them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Delete, Text, cast, delete, func, select
from sqlmodel import col

from pdctl.adapters.store.database import Database
from pdctl.adapters.store.tables import RequestRow

SAMPLE = 200
"""Newest rows whose size is looked at."""
BESIDE = 900
"""Bytes of a row beside its record: columns, entries of nine indexes and half-filled pages, as
measured on SQLite (`benchmarks/retention.py`)."""


class RequestShelf(Database):
    """`control.retention.RequestShelf` over SQL."""

    async def drop_requests(self, *, keep: int, before: float, most: int) -> tuple[int, int]:
        """Drop the oldest: (received before that wall second, beyond the newest `keep`)."""
        key, received = col(RequestRow.key), col(RequestRow.received_at)
        async with self._write() as db:
            old = await db.execute(_oldest(received < before, received, most))
            newest = await db.scalar(select(func.max(key))) or 0
            many = await db.execute(_oldest(key <= newest - keep, key, most))
        return old.rowcount, many.rowcount

    async def request_bytes(self) -> float | None:
        """Bytes that one of the newest records takes on average, derived from its text."""
        newest = select(func.length(cast(col(RequestRow.record), Text)).label("size"))
        some = newest.order_by(col(RequestRow.key).desc()).limit(SAMPLE).subquery()
        async with self._read() as db:
            found = await db.scalar(select(func.avg(some.c.size)))
        return None if found is None else float(found) + BESIDE


def _oldest(which: Any, order: Any, most: int) -> Delete:
    some = select(col(RequestRow.key)).where(which).order_by(order).limit(most)
    return delete(RequestRow).where(col(RequestRow.key).in_(some))
