"""Small dialogs: confirm a verb, show a text, pick one of many. The safe button has the focus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from pdctl_console.styled import Line, clean, plain
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.row_table import Column, Row, RowTable


class Confirm(ModalScreen[bool]):
    """Says what will happen and how the same is said on the command line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "Cancel"),
        Binding("y", "answer(True)", "Do it"),
        Binding("left,right", "app.focus_next", "Other button", show=False),
    ]

    def __init__(self, title: str, body: Sequence[Line], verb: str, safe: str = "Cancel") -> None:
        super().__init__()
        self._title, self._body, self._verb, self._safe = title, body, verb, safe

    def compose(self) -> ComposeResult:
        """Text and two buttons."""
        with Vertical(id="dialog") as box:
            box.border_title = Content(clean(self._title))
            with VerticalScroll(id="words", can_focus=False):
                yield Block(lambda _width: self._body)
            with Horizontal(id="buttons"):
                yield Button(f"{self._safe} (n)", id="no", compact=True)
                yield Button(f"{self._verb} (y)", id="yes", variant="primary", compact=True)

    def on_mount(self) -> None:
        """Enter alone changes nothing."""
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A click answers."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        """A key answers."""
        self.dismiss(answer)


class Text(ModalScreen[None]):
    """A text to read, scrollable."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "close", "Close")]

    def __init__(self, title: str, body: Sequence[Line]) -> None:
        super().__init__()
        self._title, self._body = title, body

    def compose(self) -> ComposeResult:
        """The text in a frame."""
        with Vertical(id="dialog") as box:
            box.border_title = Content(clean(self._title))
            box.border_subtitle = "Esc closes"
            with VerticalScroll(id="words"):
                yield Block(lambda _width: self._body)

    def action_close(self) -> None:
        """Back to the screen."""
        self.dismiss()


class Pick(ModalScreen[str | None]):
    """One of many by typing a part of its name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Cancel"),
        Binding("down", "move(1)", "Down", show=False),
        Binding("up", "move(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        super().__init__()
        self._title, self._columns, self._all = title, columns, rows

    def compose(self) -> ComposeResult:
        """A field and what matches it."""
        with Vertical(id="dialog") as box:
            box.border_title = Content(clean(self._title))
            box.border_subtitle = "type to narrow, Enter takes it, Esc cancels"
            box.set_class(len(self._columns) > 2, "wide")
            yield Input(placeholder="part of a name", id="part", compact=True)
            yield RowTable(self._columns, id="choices")

    def on_mount(self) -> None:
        """Everything, until something is typed."""
        self.query_one(RowTable).sync(self._all)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow."""
        part = event.value.strip().lower()
        rows = [row for row in self._all if part in row[0].lower()]
        self.query_one(RowTable).sync(rows, plain("Nothing has that in its name."))
        self.query_one(RowTable).move_to(0)

    def on_input_submitted(self) -> None:
        """Take the row under the cursor."""
        self.dismiss(self.query_one(RowTable).selected_key)

    def on_row_table_chosen(self, message: RowTable.Chosen) -> None:
        """A click takes it."""
        message.stop()
        self.dismiss(message.key)

    def action_move(self, by: int) -> None:
        """The arrows move in the list while one types."""
        self.query_one(RowTable).action_move(by)

    def action_close(self) -> None:
        """Nothing picked."""
        self.dismiss(None)


class Enter(ModalScreen[str | None]):
    """One value to type."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Cancel")]

    def __init__(self, title: str, value: str, said: str) -> None:
        super().__init__()
        self._title, self._value, self._said = title, value, said

    def compose(self) -> ComposeResult:
        """What it is, and a field with the value of now."""
        with Vertical(id="dialog") as box:
            box.border_title = Content(clean(self._title))
            box.border_subtitle = "Enter plans it, Esc cancels"
            yield Block(lambda _width: [plain(self._said)])
            yield Input(self._value, id="value", compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take what was typed."""
        self.dismiss(event.value.strip())

    def action_close(self) -> None:
        """Nothing typed."""
        self.dismiss(None)
