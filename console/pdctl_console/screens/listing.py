"""What the screens that are one long table share: a filter, faults only, and an account of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from pdctl_console.model import ViewState
from pdctl_console.screens.base import MainScreen
from pdctl_console.styled import Line, Part, clean, text_of, told
from pdctl_console.widgets.block import Block
from pdctl_console.widgets.row_table import Column, Row, RowTable


class ListScreen(MainScreen):
    """Newest first. A subclass says which items, how each looks, and which is a fault."""

    COLUMNS: ClassVar[Sequence[Column]] = ()
    NOUN: ClassVar[str] = "entries"
    PLACEHOLDER: ClassVar[str] = "part of any column; !part leaves out"
    EMPTY: ClassVar[str] = "Nothing yet."
    ORDER: ClassVar[str] = "newest first"
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter"),
        Binding("f", "faults", "Faults only"),
        Binding("escape", "drop", "Drop filters", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._text, self._faults = "", False

    def items(self, state: ViewState) -> Sequence[Any]:
        """Everything that is known, newest first."""
        raise NotImplementedError

    def row(self, item: Any, state: ViewState) -> Row:
        """An item as a row."""
        raise NotImplementedError

    def faulty(self, item: Any) -> bool:
        """It needs a look."""
        raise NotImplementedError

    def notes(self, state: ViewState) -> list[Part]:
        """What else the line above the table says."""
        return []

    def empty(self, state: ViewState) -> str:
        """What stands where nothing is known."""
        return self.EMPTY

    def body(self) -> ComposeResult:
        """Filter line, what is shown, table."""
        yield Input(placeholder=self.PLACEHOLDER, id="filter", compact=True)
        yield Block(id="hint")
        yield RowTable(self.COLUMNS, newest_first=True, id="list")

    def on_mount(self) -> None:
        """The filter shows itself when asked for."""
        self.query_one(Input).display = False

    def draw(self, state: ViewState) -> None:
        """Draw the rows that pass the filters."""
        known = self.items(state)
        rows = [
            row for item in known
            if not (self._faults and not self.faulty(item))
            and self._passes(row := self.row(item, state))
        ]  # fmt: skip
        empty = f"No {self.NOUN} pass the filter; Esc drops it." if known else self.empty(state)
        if state.fleet is None:
            empty = ""
        self.query_one("#list", RowTable).sync(rows, told(empty, "muted"))
        self.query_one("#hint", Block).put(self._hint(len(rows), len(known), state))

    def _passes(self, row: Row) -> bool:
        part = self._text.lower()
        if not part.strip("!"):
            return True
        inverse, part = part.startswith("!"), part.removeprefix("!")
        return (part in " ".join((row[0], *map(text_of, row[1]))).lower()) is not inverse

    def _hint(self, shown: int, known: int, state: ViewState) -> Line:
        count = f"{shown} of {known} {self.NOUN}, {self.ORDER}" if known else ""
        parts: list[Part] = [(count, "muted")]
        if self._text:
            how = "without" if self._text.startswith("!") else "with"
            parts += [(f"  {how} ", "muted"), (clean(self._text.removeprefix("!")), "key")]
        if self._faults:
            parts.append(("  faults only", "warn"))
        return tuple(part for part in (*parts, *self.notes(state)) if part[0])

    @property
    def selected(self) -> str | None:
        """Key of the row under the cursor."""
        return self.query_one("#list", RowTable).selected_key

    def again(self) -> None:
        """Draw what is known now."""
        self.draw(self.console.state)

    def action_filter(self) -> None:
        """Type a filter."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_drop(self) -> None:
        """Drop all filters."""
        self._text, self._faults = "", False
        field = self.query_one(Input)
        field.value, field.display = "", False
        self.query_one("#list").focus()
        self.again()

    def action_faults(self) -> None:
        """Only what needs a look, or all."""
        self._faults = not self._faults
        self.again()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._text = event.value.strip()
        self.again()

    def on_input_submitted(self) -> None:
        """Back to the rows."""
        self.query_one("#list").focus()
