"""The last facts of the feed, newest at the bottom."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.contract.resources import EventView
from pdctl_console import format as fmt
from pdctl_console.model import EVENTS_KEPT
from pdctl_console.styled import Line, Part, clean
from pdctl_console.widgets.line_log import LineLog

_ROLES = {
    "failed": "bad", "failing": "bad", "error": "bad", "backoff": "warn", "draining": "warn",
    "stopping": "warn", "warning": "warn", "ready": "ok", "ok": "ok", "gone": "muted",
    "untried": "muted",
}  # fmt: skip


class EventLog(LineLog):
    """Appends only what is new; starts anew when the feed did."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(most=EVENTS_KEPT, empty=(("No events yet.", "muted"),), id=id)
        self._told: tuple[EventView, ...] = ()
        self._utc = False

    def on_mount(self) -> None:
        """Name the panel."""
        self.border_title = " Events "

    def show(self, events: Sequence[EventView], *, utc: bool) -> None:
        """Append events that are not shown yet."""
        events, before = tuple(one for one in events if not one.echoed), self._told
        if events == before and utc == self._utc:
            return
        last = before[-1] if before else None
        at = _place(events, last)
        self._told = events
        if utc != self._utc or at is None:
            self._utc = utc
            self.replace(line(event, utc=utc) for event in events)
        else:
            self.append(line(event, utc=utc) for event in events[at + 1 :])


def _place(events: Sequence[EventView], last: EventView | None) -> int | None:
    """Where the last one shown is among `events`, from the end."""
    if last is None:
        return None
    for at in range(len(events) - 1, -1, -1):
        if events[at].seq == last.seq and events[at].at == last.at:
            return at
    return None


def line(event: EventView, *, utc: bool) -> Line:
    """One event in words."""
    data = {key: clean(str(value)) for key, value in event.data.items() if value not in (None, "")}
    when = fmt.clock(event.at, utc=utc)
    parts: list[Part] = [
        (f"{when} ", "muted"),
        (clean(event.subject.replace(">", " → ")), "strong"),
    ]
    gone = event.kind == "instance.changed" and "phase" not in data
    state = data.get("phase") or data.get("state") or data.get("rung") or data.get("level") or ""
    if gone:
        state = "gone"
    if "mode" in data:
        parts += [(" mode ", ""), (data["mode"], "key")]
    elif state:
        parts.append((f" {state}", _ROLES.get(state, "busy")))
    elif "verb" not in data:
        parts.append((f" {clean(event.kind)}", "busy"))
    if "verb" in data:
        failed = data.get("outcome") in ("refused", "failed")
        parts.append((f" {data['verb']}", ""))
        parts.append((f" {data.get('outcome', '')}".rstrip(), "bad" if failed else "ok"))
    if message := data.get("message") or data.get("error"):
        parts.append((f" {message}", ""))
    if actor := data.get("actor"):
        source = data.get("source", "")
        parts.append((f" by {actor}{f' ({source})' if source else ''}", "muted"))
    return tuple(part for part in parts if part[0])
