"""/events: the feed as server-sent events (Accept: text/event-stream) or as a JSON page.

A position is "<epoch>-<seq>": after a restart, or when the ring no longer holds it, the stream
begins with a `reset` event and the client lists again. A slow reader gets a reset, never a backlog.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from pdctl.api.context import OpenStreams, Plane, Streams
from pdctl.api.streams import until
from pdctl.api.views import event_view, simulated
from pdctl.contract.resources import EventPage
from pdctl.control.feed import Reset
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import OperatorError
from pdctl.domain.events import DURABLE, Event, EventKind, EventQuery, matches

log = logging.getLogger(__name__)
router = APIRouter(prefix="/events", tags=["events"])
PING_S = 15.0
RETRY_MS = 2000
RING = 4096
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
SSE = "text/event-stream"
DESCRIBED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page of stored facts, or the live stream.",
        "content": {
            SSE: {
                "schema": {"type": "string"},
                "example": 'event: notice\nid: 19a-7\ndata: {"seq":7,"kind":"notice"}\n\n',
            }
        },
    }
}
After = Annotated[
    str | None, Query(description='Only later facts: "<seq>" or "<epoch>-<seq>". Default: newest.')
]
Topics = Annotated[
    str | None,
    Query(description='Comma-separated kinds or their first words: "instance,pair.changed".'),
]
LastEventId = Annotated[str | None, Header(description="Where a broken stream was left.")]


@router.get("", operation_id="listEvents", response_model=EventPage, responses=DESCRIBED)
async def list_events(
    request: Request,
    plane: Plane,
    streams: OpenStreams,
    *,
    after: After = None,
    before: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="Only earlier facts; in a page.")
    ] = None,
    about: Annotated[
        str | None, Query(max_length=512, description="An instance or pool; in a page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=2000, description="Facts in a page.")] = 200,
    topics: Topics = None,
    last_event_id: LastEventId = None,
) -> EventPage | Response:
    """Facts after a position: for ever as a stream, or the stored ones as a page."""
    epoch, seq = _position(last_event_id or after)
    wanted = frozenset(part.strip() for part in topics.split(",")) if topics else None
    if SSE not in request.headers.get("accept", ""):
        kinds = DURABLE if wanted is None else frozenset(filter(_among(wanted), DURABLE))
        return await _page(plane, EventQuery(limit, seq, before, kinds, about))
    known = epoch is None or epoch == plane.epoch
    source = _stream(plane, streams, seq, known, wanted)
    return StreamingResponse(source, media_type=SSE, headers=HEADERS)


async def _stream(
    plane: ControlPlane,
    streams: Streams,
    seq: int | None,
    known: bool,
    topics: frozenset[str] | None,
) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n: pdctl events\n\n".encode()
    lost = seq is not None and (not known or seq > plane.feed.seq)
    if lost:
        seq = plane.feed.seq
        yield _reset(plane.epoch, seq)
    async with plane.feed.subscribe(seq) as subscription:
        async for one in until(streams.closing, aiter(subscription), PING_S):
            if one is None:
                yield b": ping\n\n"
            elif isinstance(one, Reset):
                yield _reset(plane.epoch, one.seq)
            elif topics is None or _among(topics)(one.kind):
                yield _message(plane.epoch, one)


async def _page(plane: ControlPlane, query: EventQuery) -> EventPage:
    """Stored facts, completed by what the ring holds and the store has not yet."""
    ring = [event for event in plane.feed.recent(RING) if matches(event, query)]
    try:
        stored = await plane.store.events(query)
    except Exception:
        log.exception("the store did not answer an event query")
        stored = []
    known = {event.seq: event for event in (*stored, *ring)}
    events = [known[seq] for seq in sorted(known)]
    events = events[-query.limit :] if query.after is None else events[: query.limit]
    items = [event_view(event) for event in events]
    return EventPage(simulated=simulated(plane), items=items, seq=plane.feed.seq)


def _among(topics: frozenset[str]) -> Callable[[EventKind], bool]:
    return lambda kind: kind.value in topics or kind.value.partition(".")[0] in topics


def _position(text: str | None) -> tuple[str | None, int | None]:
    if not text:
        return (None, None)
    epoch, _, seq = text.rpartition("-")
    if not (seq.isascii() and seq.isdecimal()) or len(seq) > 18:
        raise OperatorError(
            "bad_position",
            f"{text[:80]!r} is not a position in the feed.",
            'Use "<seq>" or the "<epoch>-<seq>" that came as an event\'s id.',
        )
    return (epoch or None, int(seq))


def _message(epoch: str, event: Event) -> bytes:
    data = event_view(event).model_dump_json()
    return f"event: {event.kind.value}\nid: {epoch}-{event.seq}\ndata: {data}\n\n".encode()


def _reset(epoch: str, seq: int) -> bytes:
    data = orjson.dumps({"seq": seq}).decode()
    return f"event: reset\nid: {epoch}-{seq}\ndata: {data}\n\n".encode()
