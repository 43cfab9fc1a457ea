"""What all main screens share: status line above, footer below, drawing on each new state."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from pdctl_console import format as fmt
from pdctl_console.follower import Look
from pdctl_console.model import ViewState
from pdctl_console.widgets.status_bar import StatusBar, TroubleBar

if TYPE_CHECKING:
    from pdctl_console.app import ConsoleApp


class MainScreen(Screen[None]):
    """A screen that draws the app's state."""

    NAME: ClassVar[str] = ""
    """Its name among the app's modes."""
    LOOK: ClassVar[Look] = Look()
    """What it needs to be kept fresh."""

    @property
    def console(self) -> ConsoleApp:
        """The app, with its own type."""
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        """Status, trouble, body, footer."""
        yield StatusBar(id="status")
        yield TroubleBar(id="trouble")
        yield from self.body()
        yield Footer(compact=True, show_command_palette=False)

    def body(self) -> ComposeResult:
        """The screen's own widgets."""
        raise NotImplementedError

    def show(self, state: ViewState) -> None:
        """Draw `state`."""
        if not (self.is_attached and self.query(TroubleBar)):
            return  # it is being taken down
        self.set_class(state.fleet is not None and not state.connected, "-old")
        self.query_one(StatusBar).show(state, self.NAME, read_only=self.console.read_only)
        seen = state.last_seen
        age = fmt.age(seen, self.console.now()) if seen is not None else ""
        self.query_one(TroubleBar).show(state, age)
        self.draw(state)

    def draw(self, state: ViewState) -> None:
        """Draw the screen's own widgets."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the app does not allow, no screen does."""
        return self.console.check_action(action, parameters)

    def on_screen_resume(self) -> None:
        """A screen that was away missed states."""
        self.console.look(self.LOOK)
        self.show(self.console.state)

    def on_status_bar_picked(self, message: StatusBar.Picked) -> None:
        """A click on another screen's name."""
        self.console.switch_mode(message.mode)
