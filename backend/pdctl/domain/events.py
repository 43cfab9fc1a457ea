"""Facts of the fleet, numbered: what the feed carries and the store keeps.

A closed list: a new kind is added here, described, and handled by every face.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pdctl.domain.ids import Seq


class EventKind(StrEnum):
    """What happened. The value is the SSE event name."""

    FLEET_CHANGED = "fleet.changed"
    """Desired state changed (mode, sizes, revision); data: mode, revision, actor, source."""
    INSTANCE_CHANGED = "instance.changed"
    """An instance entered a phase or its message changed; data: phase, reason, message, pool."""
    PAIR_CHANGED = "pair.changed"
    """A pair was probed, quarantined by real requests, or paused with one of its ends; data: state,
    message, handoff_ms, last_ok (UTC seconds)."""
    STOP_RUNG = "instance.stop_rung"
    """One rung of the stop ladder was taken; data: rung, message."""
    REQUEST_FINISHED = "request.finished"
    """A request ended; data: a short form of its record. In the ring, not in the store."""
    OPERATION = "operation"
    """An operator's verb was carried out or refused; data: verb, actor, source, outcome."""
    SIGNAL_CHANGED = "signal.changed"
    """A signal fires, was acknowledged or is resolved; data: rule, state, severity, message,
    value, acknowledged_by. The subject is the one it concerns."""
    NOTICE = "notice"
    """Something an operator should read; data: level, message."""


DURABLE = frozenset(EventKind) - {EventKind.REQUEST_FINISHED}


@dataclass(frozen=True, slots=True)
class Event:
    """One fact."""

    seq: Seq
    at: float
    """Wall time, UTC seconds."""
    kind: EventKind
    subject: str
    """Instance id, "prefill-0>decode-0" for a pair, request id, or "fleet"."""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Filters of stored facts; None means any. Facts come oldest first."""

    limit: int = 200
    after: int | None = None
    """Only later ones, the first `limit` of them; without it, the newest."""
    before: int | None = None
    """Only earlier ones."""
    kinds: frozenset[EventKind] = DURABLE
    about: str | None = None
    """The fact's subject, one end of its pair, or an instance or pool that its verb names."""
    since: float | None = None
    """Only those that happened then (wall seconds) or later, and before `until`."""
    until: float | None = None


def matches(event: Event, query: EventQuery) -> bool:
    """Whether `query` asks for `event`, its limit aside."""
    names = (event.subject, *event.subject.split(">"), *(event.data.get("about") or ()))
    return (
        event.kind in query.kinds
        and (query.about is None or query.about in names)
        and (query.after is None or event.seq > query.after)
        and (query.before is None or event.seq < query.before)
        and (query.since is None or event.at >= query.since)
        and (query.until is None or event.at < query.until)
    )
