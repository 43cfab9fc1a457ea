"""The line behind `:`: a verb or a screen in the words of the command line."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pdctl.contract.asks import Ask
from pdctl.domain.errors import OperatorError
from pdctl_console import command
from pdctl_console.command import Go
from pdctl_console.model import ViewState
from pdctl_console.styled import Part, clean, told
from pdctl_console.widgets.block import Block

SHOWN = 40
"""Words that the line may go on with, at most; the rest is counted."""


class Prompt(ModalScreen[Ask | Go | None]):
    """One line to type; what is wrong with it is said above it, and it stays."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("tab", "complete", "Complete", priority=True),
        Binding("up", "older(1)", "Older", priority=True),
        Binding("down", "older(-1)", "Newer", priority=True),
    ]

    def __init__(self, state: ViewState, history: list[str]) -> None:
        """`history`: lines of before, oldest first; this one is added when it means something."""
        super().__init__()
        self._state, self._history, self._back = state, history, 0

    def compose(self) -> ComposeResult:
        """What may come next, and the line."""
        with Vertical(id="prompt"):
            yield Block(id="next")
            with Horizontal(id="line"):
                yield Static(":", id="colon")
                yield Input(id="command", compact=True)

    def on_mount(self) -> None:
        """Say what there is."""
        self._tell("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """What may come next."""
        self._tell(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do it, or say what is wrong with it."""
        text = event.value.strip()
        if not text:
            self.dismiss(None)
            return
        try:
            meant = command.read(text)
        except OperatorError as error:
            self.query_one("#next", Block).put(told(str(error), "bad"))
            return
        if self._history[-1:] != [text]:
            self._history.append(text)
        self.dismiss(meant)

    def action_close(self) -> None:
        """Back to the screen."""
        self.dismiss(None)

    def action_complete(self) -> None:
        """As far as it can go on in one way only."""
        field = self.query_one(Input)
        field.value = command.completed(field.value, self._state)
        field.cursor_position = len(field.value)

    def action_older(self, by: int) -> None:
        """A line of before."""
        self._back = min(max(0, self._back + by), len(self._history))
        field = self.query_one(Input)
        field.value = self._history[-self._back] if self._back else ""
        field.cursor_position = len(field.value)

    def _tell(self, text: str) -> None:
        _, found = command.candidates(text, self._state)
        parts: list[Part] = [(clean("  ".join(found[:SHOWN])), "muted")]
        if len(found) > SHOWN:
            parts.append((f"  and {len(found) - SHOWN} more", "muted"))
        self.query_one("#next", Block).put(
            tuple(parts) if found else told("Enter does it, Esc leaves.", "muted")
        )
