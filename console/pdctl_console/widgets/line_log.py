"""Lines that keep coming: bounded, wrapped or not, and still while the reader has scrolled up.

Only the rows in view are ever painted; appending costs the new lines alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pdctl_console.styled import Line, cut, width_of, wrap
from pdctl_console.widgets.paint import ROLES, strip


class LineLog(ScrollView, can_focus=True):
    """The last lines of something, the newest at the bottom."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(ROLES)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "Up", show=False),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("g", "scroll_home", "Oldest", show=False),
        Binding("G", "scroll_end", "Newest", show=False),
    ]

    def __init__(
        self,
        *,
        most: int,
        wrapped: bool = True,
        empty: Line = (),
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._most = most
        self._lines: deque[Line] = deque()
        self._sizes: deque[int] = deque()
        self._rows: deque[Line] = deque()
        self._empty = empty
        self._shown: tuple[int, list[Line]] = (-1, [])
        self.wrapped = wrapped
        self._at_end = True

    @property
    def lines(self) -> tuple[Line, ...]:
        """What it holds."""
        return tuple(self._lines)

    @property
    def at_end(self) -> bool:
        """The newest line is in view, and stays so; only scrolling changes that, not a resize."""
        return self._at_end

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The reader scrolled, or we did."""
        super().watch_scroll_y(old_value, new_value)
        self._at_end = new_value >= self.max_scroll_y
        # A scrollbar that only now comes into view would otherwise show where we were before.
        self.vertical_scrollbar.position = new_value

    def replace(self, lines: Iterable[Line], empty: Line | None = None) -> None:
        """Show exactly `lines`, from their end."""
        self._lines.clear()
        self._sizes.clear()
        self._rows.clear()
        self._empty = self._empty if empty is None else empty
        self._add(lines)
        self._settle(follow=True, dropped=0)

    def append(self, lines: Iterable[Line]) -> None:
        """Add newer lines; the oldest go when there are too many."""
        follow = self.at_end
        self._add(lines)
        dropped = 0
        while len(self._lines) > self._most:
            self._lines.popleft()
            size = self._sizes.popleft()
            for _ in range(size):
                self._rows.popleft()
            dropped += size
        self._settle(follow=follow, dropped=dropped)

    def toggle_wrap(self) -> None:
        """Fold long lines, or let them run out to the right."""
        self.wrapped = not self.wrapped
        self._fold()

    def on_resize(self, event: Resize) -> None:
        """Fold to the new width."""
        self._fold()

    def _fold(self) -> None:
        lines, follow = list(self._lines), self.at_end
        self._lines.clear()
        self._sizes.clear()
        self._rows.clear()
        self._add(lines)
        self._settle(follow=follow, dropped=0)

    def _add(self, lines: Iterable[Line]) -> None:
        width = self.scrollable_content_region.width
        for line in lines:
            rows = wrap(line, width) if self.wrapped else [line]
            self._lines.append(line)
            self._sizes.append(len(rows))
            self._rows.extend(rows)

    def _settle(self, *, follow: bool, dropped: int) -> None:
        self._shown = (-1, [])
        widest = 0 if self.wrapped else max(map(width_of, self._lines), default=0)
        self.virtual_size = Size(widest, len(self._rows))
        if follow:
            self._at_end = True
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)
        elif dropped:
            top = max(0, self.scroll_offset.y - dropped)
            self.scroll_to(y=top, animate=False, immediate=True, force=True)
        self.refresh()

    def _row(self, index: int) -> Line | None:
        """A row; the window in view is kept as a list, for a deque is slow in its middle."""
        first, rows = self._shown
        top = self.scroll_offset.y
        if first != top:
            rows = list(islice(self._rows, top, top + self.size.height + 1))
            self._shown = (top, rows)
        at = index - top
        return rows[at] if 0 <= at < len(rows) else None

    def render_line(self, y: int) -> Strip:
        """The row that is scrolled to this line."""
        offset, width = self.scroll_offset, self.scrollable_content_region.width
        style = self.rich_style
        if not self._rows and y == 0:
            return strip(self, cut(self._empty, width), style).adjust_cell_length(width, style)
        row = self._row(y + offset.y)
        if row is None:
            return Strip.blank(width, style)
        return strip(self, row, style).crop_extend(offset.x, offset.x + width, style)
