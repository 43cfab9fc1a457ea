"""`ports.Store` over SQL: requests, facts and answers here, the rest in its two base classes.

`trail` words the queries of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path as File
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from pdctl.adapters.store import trail
from pdctl.adapters.store.changes import ChangeTables
from pdctl.adapters.store.codec import plain
from pdctl.adapters.store.database import readable
from pdctl.adapters.store.minutes import MinuteTables
from pdctl.adapters.store.shelf import RequestShelf
from pdctl.adapters.store.signals import KEPT_SIGNALS, SignalTables
from pdctl.adapters.store.tables import (
    AnswerRow,
    EventRow,
    OperationRow,
    RequestRow,
    RunRow,
    SignalRow,
)
from pdctl.adapters.store.tenure import TenureTables
from pdctl.domain.audit import AuditEntry, AuditQuery
from pdctl.domain.events import Event, EventQuery
from pdctl.domain.handoff import Path, RequestRecord
from pdctl.domain.request_query import ANY_SLO, RequestQuery
from pdctl.ports import Answer

KEPT_RUNS = 1000
"""Newest applied plans that outlive a pruning."""


class SqlStore(ChangeTables, TenureTables, SignalTables, MinuteTables, RequestShelf):
    """Durable memory in one SQL database."""

    async def take_key(self, claim: Answer, *, expired: float) -> Answer | None:
        """Claim a key; None when it is ours now, else what holds it."""
        key = col(AnswerRow.key)
        add = self._dialect.insert(AnswerRow).values(asdict(claim))
        async with self._write() as db:
            await db.execute(delete(AnswerRow).where(col(AnswerRow.at) < expired))
            taken = await db.execute(add.on_conflict_do_nothing(index_elements=["key"]))
            if taken.rowcount:
                return None
            row = (await db.execute(select(AnswerRow).where(key == claim.key))).one()
        headers = tuple((str(name), str(value)) for name, value in row.headers)
        return Answer(row.key, row.fingerprint, row.at, row.status, headers, row.body)

    async def keep_answer(self, answer: Answer) -> None:
        """What the write under this key was answered with."""
        there = col(AnswerRow.key) == answer.key
        async with self._write() as db:
            await db.execute(update(AnswerRow).where(there).values(asdict(answer)))

    async def free_key(self, key: str) -> None:
        """The write did not happen: the key may be used again."""
        async with self._write() as db:
            await db.execute(delete(AnswerRow).where(col(AnswerRow.key) == key))

    async def add_requests(self, records: Sequence[RequestRecord]) -> None:
        """Append finished requests in one transaction."""
        if records:
            async with self._write() as db:
                await db.execute(insert(RequestRow), [_request_row(one) for one in records])

    async def requests(self, query: RequestQuery) -> list[RequestRecord]:
        """Newest (or slowest) first, filtered; nothing when `before` is not stored."""
        async with self._read() as db:
            found = select(col(RequestRow.record))
            if query.before is not None:
                after = await _cut(db, query)
                if after is None:
                    return []
                found = found.where(after)
            found = _filtered(found, query).order_by(*_order(query)).limit(query.limit)
            return list(readable(RequestRecord, await db.scalars(found)))

    async def request(self, id_: str) -> RequestRecord | None:
        """The newest record called `id_`."""
        newest = col(RequestRow.key).desc()
        wanted = select(col(RequestRow.record)).where(col(RequestRow.id) == plain(id_))
        async with self._read() as db:
            found = await db.scalar(wanted.order_by(newest).limit(1))
        return next(readable(RequestRecord, [] if found is None else [found]), None)

    async def add_events(self, events: Sequence[Event]) -> None:
        """Append durable facts and the log of verbs; what is already there is left alone."""
        rows = [
            {
                "seq": one.seq, "at": one.at, "kind": one.kind.value,
                "subject": plain(one.subject)[:512], "data": one.data,
            }
            for one in events
        ]  # fmt: skip
        if rows:
            verbs = trail.rows(events)
            async with self._write() as db:
                for table, new in ((EventRow, rows), (OperationRow, verbs)):
                    if new:
                        add = self._dialect.insert(table).on_conflict_do_nothing(
                            index_elements=["seq"]
                        )
                        await db.execute(add, new)

    async def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Entries of the operations log, oldest first."""
        async with self._read() as db:
            return await trail.entries(await db.stream(trail.wanted(query)), query)

    async def events(self, query: EventQuery) -> list[Event]:
        """Facts, oldest first, filtered."""
        async with self._read() as db:
            return trail.facts((await db.execute(trail.told(query))).all(), query)

    async def last_seq(self) -> int:
        """The highest stored seq, 0 when none."""
        async with self._read() as db:
            return await db.scalar(select(func.max(col(EventRow.seq)))) or 0

    async def prune(self, *, events: int) -> None:
        """Keep only the newest so many facts, and some runs and signals."""
        async with self._write() as db:
            for row, column, keep in (
                (EventRow, col(EventRow.seq), events),
                (RunRow, col(RunRow.revision), KEPT_RUNS),
                (SignalRow, col(SignalRow.fired_at), KEPT_SIGNALS),
            ):
                edge = await db.scalar(select(column).order_by(column.desc()).offset(keep).limit(1))
                if edge is not None:
                    await db.execute(delete(row).where(column <= edge))

    async def check(self) -> dict[str, Any]:
        """Facts for /readyz and doctor."""
        async with self._read() as db:
            head = await db.scalar(text("SELECT version_num FROM alembic_version"))
            requests = await db.scalar(select(func.count()).select_from(RequestRow))
            events = await db.scalar(select(func.count()).select_from(EventRow))
            size = None
            if self._dialect is postgresql:
                size = await db.scalar(text("SELECT pg_database_size(current_database())"))
        if self._path:
            size = await asyncio.to_thread(_bytes, self._path)
        facts = {"url": self._where, "head": head, "requests": requests, "events": events}
        return facts if size is None else {**facts, "bytes": size}


def _request_row(record: RequestRecord) -> dict[str, Any]:
    last = {leg.kind: leg.instance for leg in record.legs}
    touched = "|".join(dict.fromkeys(leg.instance for leg in record.legs))
    return {
        "id": plain(record.id)[:1024],
        "received_at": record.received_at,
        "path": record.path.value,
        "outcome": record.outcome.value,
        "api_key": plain(record.key)[:64],
        "model": plain(record.model)[:256],
        "missed": "".join(f"|{plain(name)}|" for name, _ in record.slo_missed)[:1024],
        "e2e_ms": record.e2e_ms,
        "prefill": last.get("prefill", ""),
        "decode": last.get("decode") or last.get("whole") or "",
        "touched": f"|{touched}|",
        "record": record,
    }


def _filtered(found: Select[Any], query: RequestQuery) -> Select[Any]:
    if query.path is not None:
        found = found.where(col(RequestRow.path) == query.path)
    if query.outcome is not None:
        found = found.where(col(RequestRow.outcome) == query.outcome)
    if query.key is not None:
        found = found.where(col(RequestRow.api_key) == plain(query.key))
    if query.instance is not None:
        needle = f"|{plain(query.instance)}|"
        found = found.where(col(RequestRow.touched).contains(needle, autoescape=True))
    if query.slowest:
        found = found.where(col(RequestRow.e2e_ms).is_not(None))
    if query.model is not None:
        found = found.where(col(RequestRow.model) == plain(query.model)[:256])
    if query.missed is not None:
        needle = "|" if query.missed == ANY_SLO else f"|{plain(query.missed)}|"
        found = found.where(col(RequestRow.missed).contains(needle, autoescape=True))
    if query.since is not None:
        found = found.where(col(RequestRow.received_at) >= query.since)
    if query.until is not None:
        found = found.where(col(RequestRow.received_at) < query.until)
    return _of_pair(found, query)


def _of_pair(found: Select[Any], query: RequestQuery) -> Select[Any]:
    if query.begins is not None:
        found = found.where(col(RequestRow.id).startswith(plain(query.begins), autoescape=True))
    if query.pair is None:
        return found
    prefill, decode = (plain(one) for one in query.pair)
    return found.where(
        col(RequestRow.path) == Path.PD.value,
        col(RequestRow.prefill) == prefill, col(RequestRow.decode) == decode,
    )  # fmt: skip


def _order(query: RequestQuery) -> list[Any]:
    newest = col(RequestRow.key).desc()
    return [col(RequestRow.e2e_ms).desc(), newest] if query.slowest else [newest]


async def _cut(db: AsyncConnection, query: RequestQuery) -> Any | None:
    """The condition "after `before` in this order"; None when `before` is not stored."""
    wanted = select(col(RequestRow.key), col(RequestRow.e2e_ms)).where(
        col(RequestRow.id) == plain(query.before or "")
    )
    if query.slowest:
        wanted = wanted.where(col(RequestRow.e2e_ms).is_not(None))
        wanted = wanted.order_by(col(RequestRow.e2e_ms), col(RequestRow.key))
    else:
        wanted = wanted.order_by(col(RequestRow.key))
    row = (await db.execute(wanted.limit(1))).first()
    if row is None:
        return None
    older = col(RequestRow.key) < row.key
    if not query.slowest:
        return older
    faster = col(RequestRow.e2e_ms) < row.e2e_ms
    return faster | ((col(RequestRow.e2e_ms) == row.e2e_ms) & older)


def _bytes(path: File) -> int:
    """Size of the database with its write-ahead log."""
    parts = (path, path.with_name(path.name + "-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())
