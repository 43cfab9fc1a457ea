"""Wiring of the terminal face: screens, keys, and the one follower whose state they all draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from pdctl.client.admin import AdminClient
from pdctl.contract.session import WhoView
from pdctl_console import moment
from pdctl_console.follower import Follower, Look
from pdctl_console.model import ViewState
from pdctl_console.navigating import NavigatingApp
from pdctl_console.screens.audit import AuditScreen
from pdctl_console.screens.base import MainScreen
from pdctl_console.screens.events import EventsScreen
from pdctl_console.screens.fleet import FleetScreen
from pdctl_console.screens.history import HistoryScreen
from pdctl_console.screens.instance import InstanceScreen
from pdctl_console.screens.logs import LogsScreen
from pdctl_console.screens.operations import OperationsScreen
from pdctl_console.screens.pairs import PairsScreen
from pdctl_console.screens.plan import PlanScreen
from pdctl_console.screens.request import RequestScreen
from pdctl_console.screens.requests import RequestsScreen
from pdctl_console.screens.signals import SignalsScreen
from pdctl_console.widgets.status_bar import TABS

WINDOWS: tuple[tuple[int | None, str], ...] = (
    (60, "last minute"), (300, "last 5 minutes"), (3600, "last hour"), (None, "since start"),
)  # fmt: skip
TICK_S = 1.0
"""Ages are counted on so often while nothing else changes."""


class ConsoleApp(NavigatingApp):
    """The operator's terminal."""

    TITLE = "pdctl"
    CSS_PATH = "console.tcss"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        "fleet": FleetScreen, "requests": RequestsScreen, "logs": LogsScreen,
        "events": EventsScreen, "pairs": PairsScreen, "operations": OperationsScreen,
        "history": HistoryScreen, "audit": AuditScreen, "signals": SignalsScreen,
    }  # fmt: skip
    DEFAULT_MODE = "fleet"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (130, "-wide")]  # noqa: RUF012 - as the base says
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(digit), f"switch_mode('{mode}')", name, show=False)
            for digit, (mode, name, _) in enumerate(TABS, 1)
        ),
        Binding("m", "mode", "Mode"),
        Binding("u", "undo", "Undo the last change", show=False),
        Binding("o", "router", "Router settings", show=False),
        Binding("z", "zone", "UTC or local time", show=False),
        Binding("ctrl+r", "reload", "Ask for everything again", show=False),
        Binding("colon", "command_line", "Command line", show=False),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        read_only: bool = False,
        utc: bool = False,
        actor: str = "",
        now: Callable[[], datetime] = moment.now,
    ) -> None:
        super().__init__()
        self.client = AdminClient(url, token, source="tui", actor=actor)
        self.read_only, self.utc, self.now = read_only, utc, now
        self.animation_level = "none"
        self._follower = Follower(self.client, lambda _: self._announce(), now)
        self._window, self._restarts = 1, 0
        self._who: WhoView | None = None

    @property
    def state(self) -> ViewState:
        """What is known now."""
        return self._follower.state

    @property
    def looking(self) -> Look:
        """What is kept fresh now."""
        return self._follower.looking

    @property
    def window_name(self) -> str:
        """The latency window in words."""
        return WINDOWS[self._window][1]

    def on_mount(self) -> None:
        """Start following."""
        self.run_worker(self._follower.run(), name="follower", exit_on_error=True)
        self.set_interval(TICK_S, self._draw)

    async def on_unmount(self) -> None:
        """Close the connections."""
        await self.client.close()

    def look(self, at: Look) -> None:
        """A screen came into view: keep fresh what it shows."""
        self._follower.look(replace(at, window_s=WINDOWS[self._window][0]))

    def _announce(self) -> None:
        self.call_later(self._draw)

    def _draw(self) -> None:
        """Only what is in view draws; a screen that was away catches up when it comes back."""
        state = self.state
        if state.restarts != self._restarts:
            self._restarts = state.restarts
            self.notify("pdctl was started anew; everything here was listed again.")
        if state.who != self._who:  # what may be done here is known now, or is otherwise
            self._who = state.who
            for screen in self.screen_stack:
                screen.refresh_bindings()
        for screen in reversed(self.screen_stack):
            if (
                isinstance(screen, MainScreen | InstanceScreen | RequestScreen | PlanScreen)
                and screen.is_mounted
            ):
                screen.show(state)
            if isinstance(screen, MainScreen | RequestScreen):
                break

    def next_window(self) -> None:
        """The next latency window."""
        self._window = (self._window + 1) % len(WINDOWS)
        self.look(FleetScreen.LOOK)
        self._draw()

    def action_reload(self) -> None:
        """List everything again."""
        self._follower.again()

    def action_zone(self) -> None:
        """Local time or UTC."""
        self.utc = not self.utc
        self.notify(f"Times are {'UTC' if self.utc else 'local'}.", timeout=2)
        self._draw()

    def action_help_quit(self) -> None:
        """Ctrl+C only says how one leaves: it is pressed by habit."""
        self.notify(
            "q leaves a dialog, and from a screen the console.", title="Quit?", markup=False
        )

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The screens, in the palette."""
        yield from super().get_system_commands(screen)
        for digit, (mode, name, _) in enumerate(TABS, 1):
            yield SystemCommand(name, f"Go to it; the key is {digit}", partial(self.go, mode))
