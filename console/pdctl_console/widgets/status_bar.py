"""The top line: the screens, which fleet in which mode and shape, and whether it is live."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from pdctl_console.model import ViewState
from pdctl_console.styled import Line, Part, clean, cut, width_of
from pdctl_console.widgets.block import Block

TABS = (
    ("fleet", "Fleet", "Fleet"), ("requests", "Requests", "Req"), ("logs", "Logs", "Log"),
    ("events", "Events", "Ev"), ("pairs", "Pairs", "Pair"), ("operations", "Operations", "Op"),
    ("history", "History", "Hist"), ("audit", "Audit", "Aud"),
    ("signals", "Signals", "Sig"),
)  # fmt: skip
"""Screens in the order of their digits: mode, name, and its name where there is little room."""
SIMULATED: Part = ("SIMULATED", "mark")
SIM: Part = ("SIM", "mark")
WIDE = 130


class StatusBar(Block):
    """One line, always true: what does not fit is left out from the middle."""

    class Picked(Message):
        """A click on a screen's name."""

        def __init__(self, mode: str) -> None:
            super().__init__()
            self.mode = mode

    def show(self, state: ViewState, here: str, *, read_only: bool) -> None:
        """Draw the line."""
        self.sketch(lambda width: [_line(state, here, width, read_only=read_only)])

    def on_click(self, event: Click) -> None:
        """A screen's name is a button."""
        left = 1
        for mode, name in names(self.size.width):
            if left <= event.x < left + len(name):
                self.post_message(self.Picked(mode))
            left += len(name) + 1


class TroubleBar(Block):
    """What is wrong, in full, and how old what is shown is; absent while all is well."""

    def show(self, state: ViewState, age: str) -> None:
        """Draw or hide it."""
        said = f"✗ {clean(state.trouble)}" if state.trouble else ""
        shown = f" What you see is {age} old." if said and age else ""
        role = "muted" if state.trouble and state.last_seen is None and not state.refused else "bad"
        if state.trouble == ViewState().trouble:
            said, role = clean(state.trouble), "muted"
        self.put(((f"{said}{shown}", role),))
        self.display = bool(said)


def names(width: int) -> list[tuple[str, str]]:
    """Mode and shown name of each screen: digit and word."""
    wide = width >= WIDE
    return [
        (mode, f"{digit} {long if wide else short}")
        for digit, (mode, long, short) in enumerate(TABS, 1)
    ]


def _tabs(here: str, width: int) -> list[Part]:
    parts: list[Part] = []
    for mode, name in names(width):
        parts += [(name, "here" if mode == here else "muted"), (" ", "")]
    return [*parts, (" ", "")]


def _fleet(state: ViewState) -> list[list[Part]]:
    """Pieces in the order in which they are given up, the last first."""
    fleet = state.fleet
    if fleet is None:
        return [[("pdctl", "strong")]]
    pieces: list[list[Part]] = [
        [(fleet.mode.value.upper(), "key"), (f" {clean(fleet.shape)}", "")],
        [(clean(fleet.name), "strong")],
        [(f"{clean(fleet.served_name)} at {clean(fleet.router.url)}", "muted")],
        [(f"{clean(fleet.connector)} · pdctl {clean(fleet.version)}", "muted")],
    ]
    if fleet.simulated:
        pieces.insert(0, [SIMULATED])
    return pieces


def _line(state: ViewState, here: str, width: int, *, read_only: bool) -> Line:
    end = _connection(state, wide=width >= WIDE, read_only=read_only)
    return _whole(_tabs(here, width), _fleet(state), end, width)


def _connection(state: ViewState, *, wide: bool, read_only: bool) -> list[Part]:
    mark: list[Part] = [*_who(state, wide=wide), *([("read-only  ", "warn")] if read_only else [])]
    if state.fleet is not None and (wrong := state.fleet.signals):
        word = f" signal{'s' if wrong > 1 else ''} " if wide else ""
        mark.append((f"▲ {wrong}{word} ", "bad"))
    if state.connected:
        return [*mark, ("● live", "ok")]
    if state.refused:
        return [*mark, ("✗ refused", "bad")]
    if state.fleet is None or state.streaming or not state.trouble:
        return [*mark, ("◔ connecting", "busy")]
    return [*mark, ("✗ not connected", "bad")]


def _who(state: ViewState, *, wide: bool) -> list[Part]:
    """Who has signed in; where there is little room, only who may change nothing."""
    who = state.who
    if who is None or who.kind not in ("user", "token"):
        return []
    if wide:
        return [(f"{clean(who.name)}, {clean(who.role)}  ", "muted")]
    return [("viewer  ", "warn")] if who.role == "viewer" else []


def _whole(tabs: list[Part], pieces: list[list[Part]], end: list[Part], width: int) -> Line:
    start: list[Part] = list(tabs)
    room = width - width_of(tuple(start)) - width_of(tuple(end)) - 1
    for long in pieces:
        narrow = long[0] == SIMULATED and width_of(tuple(long)) + 2 > room
        piece = [SIM] if narrow else long  # shorter, never left out
        size = width_of(tuple(piece)) + 2
        if size > room:
            if piece[0][1] == "strong" and room >= 10:
                start += cut(tuple(piece), room - 2)
            break
        start += [*piece, ("  ", "")]
        room -= size
    gap = max(1, width - width_of(tuple(start)) - width_of(tuple(end)))
    return (*start, (" " * gap, ""), *end)
