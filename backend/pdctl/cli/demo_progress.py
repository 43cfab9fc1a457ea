"""How the start of a fleet is shown: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pdctl.cli.status import PHASES
from pdctl.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.live import Live

    from pdctl.contract.resources import FleetView, InstanceView

REPEAT_S = 10.0
"""Without a terminal, a line at least this often: work must not look like a hang."""


class Progress(Protocol):
    """Where the start is shown."""

    def show(self, fleet: FleetView) -> None:
        """The fleet as it is now."""
        ...

    def done(self) -> None:
        """All instances are ready."""
        ...


@contextmanager
def open_progress(terminal: Terminal) -> Iterator[Progress]:
    """The progress that fits this terminal."""
    if terminal.quiet or not terminal.err.isatty():
        yield PlainProgress(terminal)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(file=terminal.err, no_color=not terminal.color, highlight=False)
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        yield LiveProgress(live)


def stage(one: InstanceView) -> str:
    """What an instance is doing, in a few words."""
    if one.progress and one.phase in ("starting", "loading"):
        done = one.progress.fraction
        return one.progress.stage + (f" {done * 100:.0f} %" if done is not None else "")
    return one.message


class PlainProgress:
    """One line for each change, with the seconds since the start."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._begun = self._said = time.monotonic()
        self._seen: dict[str, str] = {}

    def show(self, fleet: FleetView) -> None:
        """Say what changed, or that it goes on."""
        for one in fleet.instances:
            now = f"{one.id} {one.phase}" + (f": {what}" if (what := stage(one)) else "")
            if self._seen.get(one.id) != now:
                self._seen[one.id] = now
                self._say(now)
        if time.monotonic() - self._said > REPEAT_S:
            busy = (text for text in self._seen.values() if " ready" not in text)
            self._say(f"still starting: {', '.join(busy)}")

    def done(self) -> None:
        """The closing line."""
        self._say("the fleet is ready")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self._terminal.say(f"[{self._said - self._begun:6.1f} s] {text}")


class LiveProgress:
    """A table that is redrawn: instance, phase, stage, seconds in this phase."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._begun = time.monotonic()
        self._since: dict[str, tuple[str, float]] = {}

    def show(self, fleet: FleetView) -> None:
        """Redraw."""
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for one in fleet.instances:
            phase, since = self._since.get(one.id, ("", now))
            if phase != one.phase:
                since = now
                self._since[one.id] = (one.phase, now)
            mark = Text(str(one.phase), style=PHASES.get(one.phase, ""))
            table.add_row(one.id, mark, stage(one), f"{now - since:.0f} s")
        table.add_row("", Text("elapsed", style="dim"), "", f"{now - self._begun:.0f} s")
        self._live.update(table)

    def done(self) -> None:
        """Nothing more: the last table stays."""
