"""/audit: the operations log, searched or taken away whole. It is append-only and never pruned."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from pdctl.api.context import Plane
from pdctl.api.views import moment
from pdctl.contract.history import AuditEntryView, AuditPage
from pdctl.control.plane import ControlPlane
from pdctl.domain.audit import AuditEntry, AuditQuery, entry_of, matches

log = logging.getLogger(__name__)
router = APIRouter(prefix="/audit", tags=["audit"])
JSONL, CSV = "application/jsonl", "text/csv"
TYPES = {"jsonl": JSONL, "csv": CSV}
COLUMNS = (
    "seq", "at", "verb", "actor", "source", "outcome", "subject", "message", "before", "after",
    "change", "plan", "operation", "about",
)  # fmt: skip
PAGE = 500
"""Entries read from the store at once during an export."""
RING = 4096
DESCRIBED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page of entries, or every one that matches as JSON lines or a table.",
        "content": {
            JSONL: {"schema": {"type": "string"}, "example": '{"seq":7,"verb":"resize"}\n'},
            CSV: {"schema": {"type": "string"}, "example": "seq,at,verb\r\n7,,resize\r\n"},
        },
    }
}
Seq = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
Word = Annotated[str | None, Query(max_length=512, description="Only entries with this value.")]


@router.get("", operation_id="listAudit", response_model=AuditPage, responses=DESCRIBED)
async def list_audit(
    plane: Plane,
    *,
    verb: Word = None,
    actor: Word = None,
    source: Word = None,
    outcome: Word = None,
    subject: Annotated[
        str | None, Query(max_length=512, description="An instance or pool that it is about.")
    ] = None,
    after: Annotated[Seq, Query(description="Only later entries than this `seq`.")] = None,
    before: Annotated[Seq, Query(description="Only earlier entries than this `seq`.")] = None,
    text: Annotated[
        str | None, Query(max_length=512, description="Only entries that say this somewhere.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Entries in a page.")] = 100,
    format_: Annotated[
        Literal["json", "jsonl", "csv"],
        Query(alias="format", description="jsonl, csv: stream all that match, without a limit."),
    ] = "json",
) -> AuditPage | Response:
    """Who did what, from where, and what came of it; the newest entries, oldest of them first."""
    query = AuditQuery(limit, after, before, verb, actor, source, outcome, subject, text)
    if format_ != "json":
        headers = {"Content-Disposition": f'attachment; filename="pdctl-audit.{format_}"'}
        first = await plane.store.audit(_page(query, query.after or 0))
        found = _every(plane, query, first)
        lines = _table(found) if format_ == "csv" else (_line(entry) async for entry in found)
        return StreamingResponse(lines, media_type=TYPES[format_], headers=headers)
    fresh = _unwritten(plane, query)
    try:
        stored = await plane.store.audit(query)
    except Exception:
        log.exception("the store did not answer an audit query")
        note = "The store does not answer: only entries held in memory are shown."
        return _view(query, fresh, note)
    return _view(query, _merged(stored, fresh))


def entry_view(entry: AuditEntry) -> AuditEntryView:
    """One entry."""
    return AuditEntryView(
        seq=entry.seq,
        at=moment(entry.at),
        verb=entry.verb,
        actor=entry.actor,
        source=entry.source,
        outcome=entry.outcome,
        subject=entry.subject,
        message=entry.message,
        before=entry.before,
        after=entry.after,
        plan=entry.plan,
        operation=entry.operation,
        about=list(entry.about),
        details=entry.details,
    )


def _view(query: AuditQuery, found: list[AuditEntry], note: str = "") -> AuditPage:
    shown = found[-query.limit :] if query.after is None else found[: query.limit]
    return AuditPage(items=[entry_view(entry) for entry in shown], note=note)


async def _every(
    plane: ControlPlane, query: AuditQuery, page: list[AuditEntry]
) -> AsyncIterator[AuditEntry]:
    """Page after page; what is not yet written comes from memory at the end."""
    last = query.after or 0
    while page:
        for entry in page:
            yield entry
        last = page[-1].seq
        page = await plane.store.audit(_page(query, last))
    for entry in _unwritten(plane, query):
        if entry.seq > last:
            yield entry


async def _table(found: AsyncIterator[AuditEntry]) -> AsyncIterator[bytes]:
    yield _row(COLUMNS)
    async for entry in found:
        view = entry_view(entry).model_dump(mode="json")
        view |= {"about": " ".join(entry.about), "change": entry.details.get("change", "")}
        yield _row([_cell(view[name]) for name in COLUMNS])


def _page(query: AuditQuery, after: int) -> AuditQuery:
    return replace(query, after=after, limit=PAGE)


def _line(entry: AuditEntry) -> bytes:
    return entry_view(entry).model_dump_json().encode() + b"\n"


def _row(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    """Never a formula: names and reasons come from outside, and a spreadsheet would run them."""
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _unwritten(plane: ControlPlane, query: AuditQuery) -> list[AuditEntry]:
    """Entries that the feed still holds; the newest of them may not have been stored yet."""
    held = [entry for fact in plane.feed.recent(RING) if (entry := entry_of(fact)) is not None]
    return [entry for entry in held if matches(entry, query)]


def _merged(stored: list[AuditEntry], fresh: list[AuditEntry]) -> list[AuditEntry]:
    known = {entry.seq: entry for entry in (*fresh, *stored)}
    return [known[seq] for seq in sorted(known)]
