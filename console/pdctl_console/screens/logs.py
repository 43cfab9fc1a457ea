"""Logs: one instance's own output, live for ever; the previous start on request."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from pdctl.client.errors import ClientError, Denied, NotFound
from pdctl.contract.resources import InstanceView
from pdctl_console import format as fmt
from pdctl_console.follower import FIRST_RETRY_S, FRAME_S, LONGEST_RETRY_S, Look
from pdctl_console.model import ViewState
from pdctl_console.screens.base import MainScreen
from pdctl_console.screens.dialogs import Pick
from pdctl_console.styled import LONGEST, Line, Part, clean, plain, told
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.line_log import LineLog
from pdctl_console.widgets.row_table import Column

LINES_KEPT = 5000
TAIL = 1000
"""Lines asked for when a log is opened (again)."""
PICK_COLUMNS = (Column("Instance"), Column("State"), Column("Pool"))


class LogsScreen(MainScreen):
    """Follows while it is in view; away from it nothing is read, back at it the tail is."""

    NAME = "logs"
    LOOK = Look(gauges=False, latency=False)
    AUTO_FOCUS = "#log"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next(1)", "Next"),
        Binding("b", "next(-1)", "The one before", show=False),
        Binding("i", "pick", "Instance"),
        Binding("P", "previous", "Previous start"),
        Binding("space", "pause", "Pause"),
        Binding("w", "wrap", "Wrap"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.instance = ""
        self._previous, self._paused = False, False
        self._following: tuple[str, bool, int] | None = None
        self._worker: Worker[None] | None = None
        self._fresh = False
        self._new: deque[Line] = deque(maxlen=LINES_KEPT)
        self._status: Part = ("", "")

    def body(self) -> ComposeResult:
        """A title line and the log."""
        yield Block(id="title")
        yield LineLog(most=LINES_KEPT, id="log")

    def on_mount(self) -> None:
        """Lines that come within one frame are shown together."""
        self.set_interval(FRAME_S, self._flush)

    def on_screen_suspend(self) -> None:
        """Nobody looks: stop reading."""
        if self._worker is not None:
            self._worker.cancel()
        self._worker = self._following = None

    def draw(self, state: ViewState) -> None:
        """Follow the chosen instance, or the first."""
        every = state.fleet.instances if state.fleet else []
        if not self.instance and every:
            self.instance = every[0].id
        one = next((one for one in every if one.id == self.instance), None)
        self._title(every, one)
        if one is None or not self.is_current:
            return
        wanted = (self.instance, self._previous, one.generation)
        if wanted != self._following:
            self._following = wanted
            self._begin()

    def _begin(self) -> None:
        self._new.clear()
        self._fresh = True
        self._worker = self.run_worker(
            self._follow(self.instance, self._previous), exclusive=True, group="log"
        )

    def _title(self, every: list[InstanceView], one: InstanceView | None) -> None:
        if not self.instance:
            self.query_one("#title", Block).put(told("The fleet has no instances yet.", "muted"))
            return
        at = next((at for at, other in enumerate(every, 1) if other is one), 0)
        parts: list[Part] = [(f" {clean(self.instance)} ", "here"), ("  ", "")]
        parts.append(fmt.phase(one.phase) if one else ("✗ gone", "bad"))
        parts.append((f"  {at or '—'} of {len(every)}", "muted"))
        parts.append(("  previous start" if self._previous else "", "warn"))
        if self._paused:
            parts.append((f"  paused, {len(self._new)} new lines", "warn"))
        elif not self.query_one(LineLog).at_end:
            parts.append(("  scrolled up, End follows again", "muted"))
        parts += [("  ", ""), self._status]
        self.query_one("#title", Block).put(tuple(part for part in parts if part[0]))

    async def _follow(self, instance: str, previous: bool) -> None:
        delay = FIRST_RETRY_S
        while True:
            self._say("", "")
            try:
                if await self._read(instance, previous):
                    delay = FIRST_RETRY_S
                if previous:
                    self._say("it ended", "muted")
                    return
                self._say("the stream ended, opening it again", "warn")
            except (NotFound, Denied) as error:
                self._say(str(error), "warn")
                if previous or isinstance(error, Denied):
                    return
            except ClientError as error:
                self._say(f"{error.problem.detail or error.problem.title} Retrying.", "bad")
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_RETRY_S)

    async def _read(self, instance: str, previous: bool) -> bool:
        """Read until the stream ends; whether anything came. What it tells replaces the view."""
        client, rest, came = self.console.client, "", False
        async with aclosing(client.follow_logs(instance, previous=previous, tail=TAIL)) as chunks:
            async for chunk in chunks:
                if not came:
                    came, self._fresh = True, True
                    self._new.clear()
                *lines, rest = (rest + chunk).split("\n")
                self._new.extend(plain(overwritten(line)) for line in lines)
                if len(rest) > 2 * LONGEST:
                    self._new.append(plain(rest))
                    rest = ""
        if rest:
            self._new.append(plain(rest))
        return came

    def _say(self, text: str, role: str) -> None:
        self._status = (clean(text), role)
        if self.is_current:
            self.show(self.console.state)

    def _flush(self) -> None:
        if not self.is_current:
            return
        log = self.query_one(LineLog)
        if not self._paused and (self._new or self._fresh):
            if self._fresh:
                log.replace(self._new, told("Nothing yet.", "muted"))
            else:
                log.append(self._new)
            self._fresh = False
            self._new.clear()
        every = self.console.state.fleet.instances if self.console.state.fleet else []
        self._title(every, next((one for one in every if one.id == self.instance), None))

    def choose(self, instance: str) -> None:
        """Show this instance's log."""
        self.instance, self._previous, self._paused = instance, False, False
        self.show(self.console.state)

    def action_next(self, step: int) -> None:
        """The next instance, or the one before."""
        fleet = self.console.state.fleet
        names = [one.id for one in fleet.instances] if fleet else []
        if names:
            at = names.index(self.instance) if self.instance in names else -step
            self.choose(names[(at + step) % len(names)])

    def action_pick(self) -> None:
        """Choose among all instances."""
        fleet = self.console.state.fleet
        rows = [
            (one.id, (plain(one.id), (fmt.phase(one.phase),), plain(one.pool)))
            for one in (fleet.instances if fleet else [])
        ]
        self.app.push_screen(
            Pick("Whose log?", PICK_COLUMNS, rows), lambda key: self.choose(key) if key else None
        )

    def action_previous(self) -> None:
        """The start before this one, and back."""
        self._previous, self._paused = not self._previous, False
        self.show(self.console.state)

    def action_pause(self) -> None:
        """Hold the view still; lines go on being collected."""
        self._paused = not self._paused
        self._flush()

    def action_wrap(self) -> None:
        """Fold long lines or not."""
        self.query_one(LineLog).toggle_wrap()


def overwritten(line: str) -> str:
    """What a terminal would show of a line that was overwritten: its last state."""
    return line.rstrip("\r").rpartition("\r")[2]
