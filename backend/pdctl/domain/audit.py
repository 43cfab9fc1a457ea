"""The operations log: one entry per verb, read from the fact that the verb itself published.

Law: an entry says nothing that its event does not say; there is no second bookkeeping.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pdctl.domain.change import Change
from pdctl.domain.events import Event, EventKind
from pdctl.domain.ids import Seq
from pdctl.domain.topology import FleetSpec
from pdctl.domain.verbs import by_field

_NAMED = frozenset(
    {
        "verb", "actor", "source", "outcome", "message", "before", "after", "plan", "operation",
        "about",
    }
)  # fmt: skip
SAID = (
    "verb", "actor", "source", "outcome", "message", "before", "after", "plan", "operation",
    "change",
)  # fmt: skip
"""What a search for a text looks through, beside the names of what an entry is about."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, from where, and what came of it."""

    seq: Seq
    """Of the event that told it."""
    at: float
    """Wall time, UTC seconds."""
    verb: str
    actor: str
    source: str
    """tui | web | cli | rest"""
    outcome: str
    """done | refused | failed; of an applied plan: done | failed | cancelled | resumed"""
    subject: str
    """Instance id, or "fleet"."""
    message: str = ""
    """Why it was refused or failed, as the operator was told."""
    before: str = ""
    after: str = ""
    plan: str = ""
    operation: str = ""
    about: tuple[str, ...] = ()
    """Instances and pools that it names."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else the verb said of itself."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Filters of the log; None means any. Entries come oldest first."""

    limit: int = 100
    after: int | None = None
    """Only later ones, the first `limit` of them; without it, the newest."""
    before: int | None = None
    """Only earlier ones."""
    verb: str | None = None
    actor: str | None = None
    source: str | None = None
    outcome: str | None = None
    subject: str | None = None
    """The entry's subject, or an instance or pool that it names."""
    text: str | None = None
    """What an entry says somewhere, in upper or lower case."""


def entry_of(event: Event) -> AuditEntry | None:
    """The entry that `event` stands for; None when it tells of no verb."""
    if event.kind is not EventKind.OPERATION:
        return None
    data = event.data

    def said(name: str) -> str:
        value = data.get(name)
        return "" if value is None else str(value)

    return AuditEntry(
        seq=event.seq,
        at=event.at,
        verb=said("verb"),
        actor=said("actor"),
        source=said("source"),
        outcome=said("outcome"),
        subject=event.subject,
        message=said("message"),
        before=said("before"),
        after=said("after"),
        plan=said("plan"),
        operation=said("operation"),
        about=tuple(str(one) for one in data.get("about") or ()),
        details={name: value for name, value in data.items() if name not in _NAMED},
    )


def matches(entry: AuditEntry, query: AuditQuery) -> bool:
    """Whether `query` asks for `entry`, its limit aside."""
    wanted = (
        (query.verb, entry.verb), (query.actor, entry.actor), (query.source, entry.source),
        (query.outcome, entry.outcome),
    )  # fmt: skip
    return (
        all(asked is None or asked == found for asked, found in wanted)
        and (query.subject is None or query.subject in (entry.subject, *entry.about))
        and (query.text is None or says(entry, query.text))
        and (query.after is None or entry.seq > query.after)
        and (query.before is None or entry.seq < query.before)
    )


def says(entry: AuditEntry, text: str) -> bool:
    """Whether `entry` says `text` somewhere, in upper or lower case."""
    said = [getattr(entry, name, entry.details.get(name)) for name in SAID]
    said += [entry.subject, *entry.about]
    return any(text.lower() in str(one).lower() for one in said if one is not None)


def verb_of(change: Change) -> str:
    """What an operator would call `change`; "apply" when it is several things at once."""
    asked = [verb for name, verb in by_field().items() if getattr(change, name) not in (None, ())]
    return asked[0] if len(asked) == 1 else "apply"


def named_by(change: Change) -> tuple[str, ...]:
    """Instances and pools that `change` names."""
    names = (
        *(name for name, _ in change.sizes), *change.restart, *change.drain, *change.undrain,
        *change.stop, *(name for pair in change.move for name in pair),
    )  # fmt: skip
    return tuple(dict.fromkeys(names))


def in_words(fleet: FleetSpec) -> str:
    """A desired fleet in one short line: "revision 7: 1p2d, pd"."""
    return f"revision {fleet.revision}: {fleet.shape}, {fleet.mode}"
