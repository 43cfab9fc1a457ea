"""Facts and the operations log in SQL: rows from the verbs' own events, questions as statements.

Law: pure; `repository` runs what is worded here, in the transaction that writes the events.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Text, cast, func, or_, select
from sqlmodel import col

from pdctl.adapters.store.codec import plain
from pdctl.adapters.store.tables import EventRow, OperationRow
from pdctl.domain.audit import AuditEntry, AuditQuery, entry_of, says
from pdctl.domain.events import Event, EventKind, EventQuery
from pdctl.domain.ids import Seq

_PLAIN = re.compile(r"[\w .:/@=>%-]+", re.ASCII)
"""Texts that stored JSON spells as they are: a database can sort out most rows by them."""


def rows(events: Sequence[Event]) -> list[dict[str, Any]]:
    """A row for each verb that `events` tell of."""
    return [_row(entry, event) for event in events if (entry := entry_of(event)) is not None]


def wanted(query: AuditQuery) -> Select[Any]:
    """The rows that `query` asks for: the first after a position, else the newest."""
    seq = col(OperationRow.seq)
    found = select(seq, col(OperationRow.at), col(OperationRow.subject), col(OperationRow.data))
    for column, value in (
        (col(OperationRow.verb), query.verb),
        (col(OperationRow.actor), query.actor),
        (col(OperationRow.source), query.source),
        (col(OperationRow.outcome), query.outcome),
    ):
        if value is not None:
            found = found.where(column == plain(value))
    if query.subject is not None:
        found = found.where(_touches(plain(query.subject)))
    if query.after is not None:
        found = found.where(seq > query.after)
    if query.before is not None:
        found = found.where(seq < query.before)
    found = found.order_by(seq.desc() if query.after is None else seq)
    if query.text is None:
        return found.limit(query.limit)
    return found.where(_may_say(query.text)) if _PLAIN.fullmatch(query.text) else found


async def entries(found: AsyncIterable[Row[Any]], query: AuditQuery) -> list[AuditEntry]:
    """The entries of those rows, oldest first; what a text is found in is decided here: every
    database would read stored JSON, and what clients sent, in a way of its own."""
    log: list[AuditEntry] = []
    async for row in found:
        fact = Event(Seq(row.seq), row.at, EventKind.OPERATION, row.subject, row.data)
        entry = entry_of(fact)
        if entry is not None and (query.text is None or says(entry, query.text)):
            log.append(entry)
        if len(log) == query.limit:
            break
    return log[::-1] if query.after is None else log


def _may_say(text: str) -> ColumnElement[bool]:
    """True for every row whose entry says `text`, and perhaps for others."""
    columns = (
        cast(col(OperationRow.data), Text), col(OperationRow.verb), col(OperationRow.actor),
        col(OperationRow.source), col(OperationRow.outcome), col(OperationRow.touched),
    )  # fmt: skip
    return or_(*(func.lower(one).contains(text.lower(), autoescape=True) for one in columns))


def told(query: EventQuery) -> Select[Any]:
    """The facts that `query` asks for: the first after a position, else the newest."""
    seq, subject = col(EventRow.seq), col(EventRow.subject)
    kind = col(EventRow.kind)
    found = select(seq, col(EventRow.at), kind, subject, col(EventRow.data))
    found = found.where(kind.in_([one.value for one in query.kinds]))
    if query.about is not None:
        name = plain(query.about)
        verbs = select(col(OperationRow.seq)).where(_touches(name))
        found = found.where(
            or_(
                subject == name,
                subject.startswith(f"{name}>", autoescape=True),
                subject.endswith(f">{name}", autoescape=True),
                seq.in_(verbs),
            )
        )
    if query.after is not None:
        found = found.where(seq > query.after)
    if query.before is not None:
        found = found.where(seq < query.before)
    if query.since is not None:
        found = found.where(col(EventRow.at) >= query.since)
    if query.until is not None:
        found = found.where(col(EventRow.at) < query.until)
    return found.order_by(seq.desc() if query.after is None else seq).limit(query.limit)


def facts(found: Sequence[Row[Any]], query: EventQuery) -> list[Event]:
    """The facts of those rows, oldest first."""
    told = [
        Event(Seq(row.seq), row.at, EventKind(row.kind), row.subject, row.data) for row in found
    ]
    return told[::-1] if query.after is None else told


def _touches(name: str) -> ColumnElement[bool]:
    return col(OperationRow.touched).contains(f"|{name}|", autoescape=True)


def _row(entry: AuditEntry, event: Event) -> dict[str, Any]:
    touched = "|".join(plain(one) for one in dict.fromkeys((entry.subject, *entry.about)))
    return {
        "seq": entry.seq,
        "at": entry.at,
        "verb": plain(entry.verb)[:64],
        "actor": plain(entry.actor)[:256],
        "source": plain(entry.source)[:32],
        "outcome": plain(entry.outcome)[:32],
        "subject": plain(entry.subject)[:512],
        "touched": f"|{touched}|",
        "data": event.data,
    }
