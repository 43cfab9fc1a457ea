"""Events: every fact of the feed with its reason, each rung of the stop ladder among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from pdctl.contract.resources import EventView
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase
from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import ViewState
from pdctl_console.screens.dialogs import Pick, Text
from pdctl_console.screens.listing import ListScreen
from pdctl_console.styled import Line, Part, clean, plain, told
from pdctl_console.widgets.row_table import Column, Row, RowTable

PICK_COLUMNS = (Column("Instance"), Column("State"), Column("Pool"))
_BAD = frozenset({"failed", "backoff", "failing", "quarantined", "refused", "error", "warning"})
_LEVELS: dict[str, fmt.Look] = {"warning": ("▲", "warn"), "error": ("✗", "bad")}
_OUTCOMES: dict[str, fmt.Look] = {
    "refused": ("▲", "warn"), "failed": ("✗", "bad"), "cancelled": ("■", "warn"),
}  # fmt: skip


class EventsScreen(ListScreen):
    """The feed as a table; Enter shows a fact whole."""

    NAME = "events"
    LOOK = Look(gauges=False, latency=False)
    COLUMNS = (
        Column("Time"), Column("About", longest=26), Column("What", longest=34),
        Column("Reason", from_width=110), Column("Message", longest=200), Column("By"),
    )  # fmt: skip
    NOUN = "events"
    EMPTY = "No events yet."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "pick", "Instance"),
        Binding("t", "rungs", "Stops only"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._instance, self._rungs = "", False

    def items(self, state: ViewState) -> Sequence[EventView]:
        """Newest first; of an operator's change only the entry that says what came of it."""
        return [one for one in reversed(state.events) if self._wanted(one)]

    def _wanted(self, one: EventView) -> bool:
        if one.echoed or (self._rungs and one.kind != EventKind.STOP_RUNG):
            return False
        return not self._instance or self._instance in _about(one)

    def row(self, item: EventView, state: ViewState) -> Row:
        """A fact in its columns."""
        actor, source = _said(item, "actor"), _said(item, "source")
        return str(item.seq), (
            plain(fmt.clock(item.at, utc=self.console.utc)),
            plain(item.subject.replace(">", " → ")),
            (what(item),),
            told(_said(item, "reason"), "muted"),
            plain(message(item)),
            told(f"{actor} ({source})" if source else actor, "muted"),
        )

    def faulty(self, item: EventView) -> bool:
        """It tells of something that is not as it should be."""
        return not _BAD.isdisjoint(
            (_said(item, "phase"), _said(item, "state"), _said(item, "outcome"), _level(item))
        ) or _said(item, "rung") in ("kill", "killed")

    def notes(self, state: ViewState) -> list[Part]:
        """The filters that are on."""
        parts: list[Part] = []
        if self._instance:
            parts += [("  about ", "muted"), (clean(self._instance), "key")]
        if self._rungs:
            parts.append(("  rungs of the stop ladder only", "warn"))
        return parts

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """A fact, whole."""
        event.stop()
        state = self.console.state
        found = next((one for one in state.events if str(one.seq) == event.key), None)
        if found is not None:
            title = f"Event {found.seq}: {found.kind}"
            self.app.push_screen(Text(title, whole(found, utc=self.console.utc)))

    def action_pick(self) -> None:
        """Only what is about one instance."""
        fleet = self.console.state.fleet
        rows = [
            (one.id, (plain(one.id), (fmt.phase(one.phase),), plain(one.pool)))
            for one in (fleet.instances if fleet else [])
        ]
        self.app.push_screen(Pick("About which instance?", PICK_COLUMNS, rows), self.about)

    def about(self, instance: str | None) -> None:
        """Only what is about this instance; None changes nothing."""
        if instance is not None:
            self._instance = instance
            self.again()

    def action_rungs(self) -> None:
        """Only how instances were stopped, or all."""
        self._rungs = not self._rungs
        self.again()

    def action_drop(self) -> None:
        """Drop all filters."""
        self._instance, self._rungs = "", False
        super().action_drop()


def what(one: EventView) -> Part:
    """What happened, as a badge."""
    state = _said(one, "state")
    if one.kind == EventKind.STOP_RUNG:
        return f"▼ stop: {_words(_said(one, 'rung'))}", "warn"
    if one.kind == EventKind.PAIR_CHANGED:
        return fmt.badge(f"pair {state}", fmt.PAIRS.get(state, fmt.FAILING))
    if one.kind == EventKind.SIGNAL_CHANGED:
        return fmt.badge(f"signal {state}", fmt.SIGNALS.get(state, ("?", "warn")))
    if one.kind == EventKind.INSTANCE_CHANGED:
        phase = _said(one, "phase")
        return fmt.phase(Phase(phase)) if phase in set(Phase) else ("· gone", "muted")
    if one.kind == EventKind.OPERATION:
        outcome = _said(one, "outcome")
        verb = _words(_said(one, "verb"))
        return fmt.badge(f"{verb} {outcome}", _OUTCOMES.get(outcome, ("●", "ok")))
    if one.kind == EventKind.FLEET_CHANGED:
        return f"● revision {_said(one, 'revision')}, mode {_said(one, 'mode')}", "key"
    return fmt.badge(_level(one) or one.kind, _LEVELS.get(_level(one), ("·", "busy")))


def message(one: EventView) -> str:
    """What it says of itself: why, or what was changed."""
    told_ = _said(one, "message") or _said(one, "error")
    if one.kind == EventKind.OPERATION:
        change = _said(one, "change") or _turn(one)
        return "; ".join(part for part in (change, told_) if part)
    took = one.data.get("handoff_ms")
    if not told_ and isinstance(took, int | float):
        return f"handed over in {fmt.ms(took)}"
    return told_


def whole(one: EventView, *, utc: bool) -> list[Line]:
    """Everything that the fact says."""
    lines: list[Line] = [
        ((fmt.stamp(one.at, utc=utc), "strong"), (f"  {clean(one.subject)}", "")),
        (what(one),),
        (),
    ]
    for name, value in one.data.items():
        if value not in (None, "", [], {}):
            lines.append(((f"{clean(_words(name)):<14}", "muted"), (clean(str(value)), "")))
    return lines


def _turn(one: EventView) -> str:
    before, after = _said(one, "before"), _said(one, "after")
    return f"{before} → {after}" if before and after else before or after


def _about(one: EventView) -> list[str]:
    named = one.data.get("about")
    return [*one.subject.split(">"), *(map(str, named) if isinstance(named, list) else ())]


def _said(one: EventView, name: str) -> str:
    value = one.data.get(name)
    return "" if value is None else clean(str(value))


def _level(one: EventView) -> str:
    return _said(one, "level")


def _words(name: str) -> str:
    return name.replace("_", " ")
