"""What the screens that are one long table share: a filter, faults only, and an account of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from pdctl.client.errors import ClientError
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
    KEY: ClassVar[str] = ""
    """What names an item, where older ones than those that are kept can be asked for."""
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter"),
        Binding("f", "faults", "Faults only"),
        Binding("greater_than_sign", "older", "Older"),
        Binding("space", "pause", "Hold the list still", show=False),
        Binding("escape", "drop", "Drop filters", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._text, self._faults = "", False
        self._older: list[Any] = []
        self._held: ViewState | None = None

    def items(self, state: ViewState) -> Sequence[Any]:
        """Everything that is known, newest first."""
        raise NotImplementedError

    async def before(self, oldest: Any) -> Sequence[Any]:
        """The page of items before `oldest`, newest first; for screens with a KEY."""
        raise NotImplementedError

    def every(self, state: ViewState) -> Sequence[Any]:
        """What is known, and the older ones that were asked for."""
        kept = self.items(state)
        if not self._older:
            return kept
        names = {getattr(one, self.KEY) for one in kept}
        return [*kept, *(one for one in self._older if getattr(one, self.KEY) not in names)]

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
        state = self._held or state
        known = self.every(state)
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
        if self._held is not None:
            parts.append(("  paused", "warn"))
        return tuple(part for part in (*parts, *self.notes(state)) if part[0])

    @property
    def selected(self) -> str | None:
        """Key of the row under the cursor."""
        return self.query_one("#list", RowTable).selected_key

    def again(self) -> None:
        """Draw what is known now."""
        self.draw(self.console.state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Some lists are known whole."""
        return (action != "older" or bool(self.KEY)) and super().check_action(action, parameters)

    @work(exclusive=True, group="older")
    async def action_older(self) -> None:
        """The page before the oldest that is shown."""
        known = self.every(self.console.state)
        if not known:
            return
        try:
            found = await self.before(known[-1])
        except ClientError as error:
            self.console.refused(error)
            return
        if not found:
            self.app.notify(f"There are no older {self.NOUN}.")
        self._older += found
        self.again()

    def action_pause(self) -> None:
        """Hold the list still; what happens meanwhile is collected."""
        self._held = None if self._held is not None else self.console.state
        self.again()

    def action_filter(self) -> None:
        """Type a filter."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_drop(self) -> None:
        """Drop all filters."""
        self._text, self._faults, self._held = "", False, None
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
