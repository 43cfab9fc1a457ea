"""A table that is told the rows it should have and repaints only the lines that differ.

Built on the line API: hundreds of rows cost nothing until they scroll into view. The cursor stays
on its row's key when rows come, go or move; left and right reach columns that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pdctl_console.styled import Line, cut, fit, width_of
from pdctl_console.widgets.paint import ROLES, strip

GAP = 2
"""Cells between columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one column is laid out."""

    title: str
    right: bool = False
    longest: int = 40
    """Cells; a longer value is cut."""
    from_width: int = 0
    """The table shows this column when it is at least so many cells wide."""


Row = tuple[str, tuple[Line, ...]]
"""A stable key, and one line per column."""


class RowTable(ScrollView, can_focus=True):
    """Rows by key."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--header", "table--cursor", *ROLES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(-1)", "Last", show=False),
        Binding("left", "sideways(-12)", "Columns to the left", show=False),
        Binding("right", "sideways(12)", "Columns to the right", show=False),
        Binding("enter", "choose", "Open"),
    ]

    class Chosen(Message):
        """Enter, or a click on the row under the cursor."""

        def __init__(self, table: RowTable, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

    class Moved(Message):
        """The cursor is on another row."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        newest_first: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._newest_first = newest_first
        self._rows: tuple[Row, ...] = ()
        self._widths = tuple(len(column.title) for column in self._columns)
        self._empty: Line = ()
        self.cursor = 0

    @property
    def selected_key(self) -> str | None:
        """Key of the row under the cursor."""
        return self._rows[self.cursor][0] if self._rows else None

    def sync(self, rows: Sequence[Row], empty: Line = ()) -> None:
        """Show exactly `rows`, in this order; `empty` when there are none."""
        wanted, before = tuple(rows), self._rows
        if wanted == before and empty == self._empty:
            return
        kept = self.selected_key
        self._rows, self._empty = wanted, empty
        moved = self._follow_key(kept)
        if self._measure() or moved or len(wanted) != len(before) or not wanted:
            self.refresh(layout=self._auto_height and len(wanted) != len(before))
            return
        for index, (old, new) in enumerate(zip(before, wanted, strict=True)):
            if old != new:
                self.refresh_line(index + 1)

    @property
    def _auto_height(self) -> bool:
        height = self.styles.height
        return height is not None and height.is_auto

    def _follow_key(self, key: str | None) -> bool:
        """Keep the cursor on `key` and that row where it is on the screen."""
        if self._newest_first and self.cursor == 0:
            return False
        was = self.cursor
        index = next((at for at, row in enumerate(self._rows) if row[0] == key), None)
        last = max(0, len(self._rows) - 1)
        self.cursor = min(was, last) if index is None else index
        if self.cursor == was:
            return False
        top = max(0, self.scroll_offset.y + self.cursor - was)
        self.virtual_size = Size(self.virtual_size.width, len(self._rows) + 1)
        self.scroll_to(y=top, animate=False, force=True, immediate=True)
        return True

    def _measure(self) -> bool:
        """Fit columns to their content; whether that changed the layout of lines."""
        widths = tuple(self._width(at) for at in range(len(self._columns)))
        changed, self._widths = widths != self._widths, widths
        total = 1 + sum(width + GAP for width in widths if width)
        size = Size(max(total, 1), len(self._rows) + 1)
        if size != self.virtual_size:
            self.virtual_size = size
        return changed

    def _width(self, at: int) -> int:
        column = self._columns[at]
        if self.size.width < column.from_width:
            return 0
        widest = max((width_of(row[1][at]) for row in self._rows), default=0)
        return max(len(column.title), min(widest, column.longest))

    def on_resize(self, event: Resize) -> None:
        """Columns come and go with the width."""
        if self._measure():
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """A scrollbar that only now comes into view knows nothing of the scrolling before."""
        super().watch_scroll_y(old_value, new_value)
        self.vertical_scrollbar.position = new_value

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as its rows, when its height is automatic."""
        return max(len(self._rows), 1) + 1

    def render_line(self, y: int) -> Strip:
        """The header, or the row that is scrolled to this line."""
        x, width = self.scroll_offset.x, self.scrollable_content_region.width
        if y == 0:
            return self._header(x, width)
        index = y - 1 + self.scroll_offset.y
        style = self.rich_style
        if index >= len(self._rows):
            said = ((" ", ""), *self._empty) if y == 1 and not self._rows else ()
            return strip(self, cut(said, width), style).crop_extend(0, width, style)
        here = index == self.cursor
        if here:
            style = self.get_component_rich_style("table--cursor")
        line = self._lay(self._rows[index][1], "▌" if here else " ")
        return strip(self, line, style).crop_extend(x, x + width, style)

    def _header(self, x: int, width: int) -> Strip:
        style = self.get_component_rich_style("table--header")
        titles = tuple(((column.title, ""),) for column in self._columns)
        titled = strip(self, self._lay(titles, " "), style)
        if x + width >= self.virtual_size.width - GAP:
            return titled.crop_extend(x, x + width, style)
        more = strip(self, (("»", "key"),), style)
        return Strip.join([titled.crop_extend(x, x + width - 1, style), more])

    def _lay(self, cells: tuple[Line, ...], gutter: str) -> Line:
        line: list[tuple[str, str]] = [(gutter, "key" if gutter != " " else "")]
        for column, width, cell in zip(self._columns, self._widths, cells, strict=True):
            if width:
                line += [*fit(cell, width, right=column.right), (" " * GAP, "")]
        return tuple(line)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row and bring it into view."""
        if not self._rows:
            return
        old, self.cursor = self.cursor, min(max(index, 0), len(self._rows) - 1)
        room = max(1, self.scrollable_content_region.height - 1)
        top = self.scroll_offset.y
        if self.cursor < top:
            top = self.cursor
        elif self.cursor >= top + room:
            top = self.cursor - room + 1
        self.scroll_to(y=top, animate=False, immediate=True)
        self.refresh_line(old + 1)
        self.refresh_line(self.cursor + 1)
        self.post_message(self.Moved())

    def action_move(self, by: int) -> None:
        """The row above or below."""
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """A screenful up or down."""
        self.move_to(self.cursor + by * max(1, self.size.height - 2))

    def action_edge(self, at: int) -> None:
        """The first or the last row."""
        self.move_to(len(self._rows) - 1 if at else 0)

    def action_sideways(self, by: int) -> None:
        """Columns that did not fit."""
        self.scroll_to(x=self.scroll_offset.x + by, animate=False, immediate=True)

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if (key := self.selected_key) is not None:
            self.post_message(self.Chosen(self, key))

    def on_click(self, event: Click) -> None:
        """The first click moves the cursor, one on the cursor's row opens it."""
        index = event.y - 1 + self.scroll_offset.y
        if event.y < 1 or index >= len(self._rows):
            return
        if index == self.cursor:
            self.action_choose()
        else:
            self.move_to(index)
