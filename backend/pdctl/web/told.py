"""One fact of the feed in words: what happened, to whom, why, and who asked for it.

Pure: a wire model in, a small frozen description out. Every rung of a stop has its own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdctl.contract.resources import EventView
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode
from pdctl.web import words
from pdctl.web.present import MODES, PHASES, REASONS, Badge, ms, pair_badge


@dataclass(frozen=True, slots=True)
class Told:
    """A fact for a list."""

    event: EventView
    subject: str
    kind: str
    badge: Badge | None = None
    said: str = ""
    """What there is to say beside the badge."""
    why: str = ""
    by: str = ""
    instance: str = ""
    """The instance that it is about, for a link."""
    operation: str = ""


def tell(event: EventView) -> Told:
    """`event` in words; a kind that this face does not know keeps its own."""
    try:
        kind = EventKind(event.kind)
    except ValueError:
        return _notice(event, words.plain(event.kind))
    data = event.data
    match kind:
        case EventKind.INSTANCE_CHANGED:
            return _instance(event, data)
        case EventKind.STOP_RUNG:
            rung = words.badge(words.RUNGS, _text(data, "rung"))
            return Told(
                event, event.subject, words.KINDS[kind], rung, why=_text(data, "message"),
                instance=event.subject,
            )  # fmt: skip
        case EventKind.PAIR_CHANGED:
            return _pair(event, data)
        case EventKind.OPERATION:
            return _operation(event, data)
        case EventKind.SIGNAL_CHANGED:
            badge = words.badge(words.SIGNALS, _text(data, "state"))
            why, said = _text(data, "message"), _text(data, "rule")
            return Told(event, event.subject, words.KINDS[kind], badge, said=said, why=why)
        case EventKind.FLEET_CHANGED:
            said = f"mode {_mode(data)}" + (
                f", revision {data['revision']}" if "revision" in data else ""
            )
            return Told(event, event.subject, words.KINDS[kind], said=said, by=_by(data))
        case _:
            return _notice(event, words.KINDS[kind])


def _instance(event: EventView, data: dict[str, Any]) -> Told:
    phase, reason = _text(data, "phase"), _text(data, "reason")
    badge = PHASES[Phase(phase)] if phase in list(Phase) else Badge("○", "Left the fleet", "idle")
    return Told(
        event, event.subject, words.KINDS[EventKind.INSTANCE_CHANGED], badge,
        said=REASONS[Reason(reason)] if reason in list(Reason) else words.plain(reason),
        why=_text(data, "message"), instance=event.subject if phase else "",
    )  # fmt: skip


def _pair(event: EventView, data: dict[str, Any]) -> Told:
    took = data.get("handoff_ms")
    said = f"handoff in {ms(float(took))}" if isinstance(took, int | float) else ""
    subject = event.subject.replace(">", " → ")
    badge = pair_badge(_text(data, "state"))
    kind = words.KINDS[EventKind.PAIR_CHANGED]
    return Told(event, subject, kind, badge, said=said, why=_text(data, "message"))


def _operation(event: EventView, data: dict[str, Any]) -> Told:
    change = _text(data, "change")
    before, after = _text(data, "before"), _text(data, "after")
    if not change and before and after:
        change = f"{before} → {after}"
    verb, about = words.word(words.VERBS, _text(data, "verb")), data.get("about") or ()
    subject = ", ".join(map(str, about)) or event.subject
    outcome = words.badge(words.ENDS, _text(data, "outcome") or _text(data, "state"))
    return Told(
        event, subject, verb.capitalize(), outcome, said=change, why=_text(data, "message"),
        by=_by(data), operation=_text(data, "operation"),
    )  # fmt: skip


def _notice(event: EventView, kind: str) -> Told:
    level = words.LEVELS.get(_text(event.data, "level"))
    return Told(event, event.subject, kind, level, why=_text(event.data, "message"))


def _mode(data: dict[str, Any]) -> str:
    mode = _text(data, "mode")
    return MODES[Mode(mode)] if mode in list(Mode) else mode


def _by(data: dict[str, Any]) -> str:
    actor, source = _text(data, "actor"), _text(data, "source")
    return f"{actor}, {words.word(words.SOURCES, source)}" if actor and source else actor


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return "" if value is None else str(value)
