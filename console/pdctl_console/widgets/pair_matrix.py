"""Prefill x decode as a matrix: one cell a pair, names held in place while the cells scroll."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pdctl.contract.resources import PairView
from pdctl_console import format as fmt
from pdctl_console.styled import Line, Part, clean, cut, fit, told
from pdctl_console.widgets.paint import ROLES, strip

_TIMED = 10
"""Cells of a column that has room for the handoff's time beside its sign."""
_LONGEST_NAME = 20


class PairMatrix(ScrollView, can_focus=True):
    """Rows are prefill instances, columns decode instances, in the fleet's order."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"matrix--head", "matrix--cursor", *ROLES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(0,-1)", "Prefill above", show=False),
        Binding("down,j", "step(0,1)", "Prefill below", show=False),
        Binding("left,h", "step(-1,0)", "Decode to the left", show=False),
        Binding("right,l", "step(1,0)", "Decode to the right", show=False),
        Binding("home,g", "edge(0)", "First pair", show=False),
        Binding("end,G", "edge(-1)", "Last pair", show=False),
    ]

    class Moved(Message):
        """Another cell is under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._prefills: list[str] = []
        self._decodes: list[str] = []
        self._labels: list[str] = []
        self._prefix = ""
        self._cells: dict[tuple[str, str], PairView] = {}
        self.column, self.row = 0, 0

    @property
    def selected(self) -> PairView | None:
        """The pair under the cursor; None where there is none."""
        if not (self._prefills and self._decodes):
            return None
        return self._cells.get((self._prefills[self.row], self._decodes[self.column]))

    def show(self, pairs: Sequence[PairView]) -> None:
        """Show exactly these pairs; the cursor stays on its names where they are still there."""
        cells = {(pair.prefill, pair.decode): pair for pair in pairs}
        if cells == self._cells:
            return
        kept = self.selected
        self._cells = cells
        self._prefills = list(dict.fromkeys(pair.prefill for pair in pairs))
        self._decodes = list(dict.fromkeys(pair.decode for pair in pairs))
        self._prefix = _prefix(self._decodes)
        self._labels = [clean(name.removeprefix(self._prefix)) for name in self._decodes]
        if kept is not None and kept.prefill in self._prefills and kept.decode in self._decodes:
            self.row = self._prefills.index(kept.prefill)
            self.column = self._decodes.index(kept.decode)
        self.row = min(self.row, max(0, len(self._prefills) - 1))
        self.column = min(self.column, max(0, len(self._decodes) - 1))
        self._measure()
        self.refresh(layout=True)

    @property
    def _side(self) -> int:
        """Cells of the names at the left, and of the prefix above them."""
        names = [*map(clean, self._prefills), f"{clean(self._prefix)}…"]
        return 2 + min(_LONGEST_NAME, max(map(len, names), default=0))

    @property
    def _cell(self) -> int:
        """Width of a column: with times where all columns have room for them."""
        narrow = 1 + max(2, *map(len, self._labels), 0)
        timed = max(_TIMED, narrow)
        return timed if self._side + timed * len(self._decodes) <= self.size.width else narrow

    def _measure(self) -> None:
        width = self._side + self._cell * len(self._decodes)
        self.virtual_size = Size(max(width, 1), len(self._prefills) + 1)

    def on_resize(self, event: Resize) -> None:
        """Times come and go with the width."""
        self._measure()
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as its rows, and a line for the names above them."""
        return max(len(self._prefills), 1) + 1

    def render_line(self, y: int) -> Strip:
        """The names of the columns, or a prefill's row."""
        width, style = self.scrollable_content_region.width, self.rich_style
        if not self._cells:
            said = told(" No pairs: they need prefill and decode instances.", "muted")
            line = cut(said, width) if y == 0 else ()
            return strip(self, line, style).crop_extend(0, width, style)
        side, x = self._side, self.scroll_offset.x
        index = y - 1 + self.scroll_offset.y
        if y == 0:
            style = self.get_component_rich_style("matrix--head")
            name: Line = ((f" {clean(self._prefix)}…" if self._prefix else "", ""),)
            cells = [fit(((label, ""),), self._cell) for label in self._labels]
        elif index < len(self._prefills):
            prefill = self._prefills[index]
            chosen = index == self.row
            name = (("▌" if chosen else " ", "key"), (clean(prefill), "strong" if chosen else ""))
            cells = [self._sign(prefill, at) for at in range(len(self._decodes))]
        else:
            return Strip.blank(width, style)
        left = strip(self, fit(name, side), style)
        on = self.get_component_rich_style("matrix--cursor")
        here = self.column if y > 0 and index == self.row else None
        row = Strip.join(
            strip(self, cell, on if at == here else style) for at, cell in enumerate(cells)
        )
        return Strip.join([left, row.crop_extend(x, x + width - side, style)])

    def _sign(self, prefill: str, at: int) -> Line:
        pair = self._cells.get((prefill, self._decodes[at]))
        if pair is None:
            return fit(((fmt.UNKNOWN, "muted"),), self._cell)
        glyph, role = fmt.PAIRS.get(pair.state, fmt.FAILING)
        parts: list[Part] = [(glyph, role)]
        if self._cell >= _TIMED and pair.handoff_ms is not None:
            parts.append((f" {fmt.ms(pair.handoff_ms)}", "muted"))
        return fit(tuple(parts), self._cell)

    def move_to(self, column: int, row: int) -> None:
        """Put the cursor on a cell and bring it into view."""
        if not self._cells:
            return
        self.column = min(max(column, 0), len(self._decodes) - 1)
        self.row = min(max(row, 0), len(self._prefills) - 1)
        region = self.scrollable_content_region
        left, room = self.column * self._cell, region.width - self._side
        x = min(max(self.scroll_offset.x, left + self._cell - room), left)
        y = min(max(self.scroll_offset.y, self.row + 2 - region.height), self.row)
        self.scroll_to(x=x, y=y, animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def point(self, prefill: str, decode: str) -> None:
        """Put the cursor on a pair."""
        if (prefill, decode) in self._cells:
            self.move_to(self._decodes.index(decode), self._prefills.index(prefill))

    def action_step(self, right: int, down: int) -> None:
        """The cell beside, above or below."""
        self.move_to(self.column + right, self.row + down)

    def action_edge(self, at: int) -> None:
        """The first or the last pair."""
        self.move_to(*((len(self._decodes), len(self._prefills)) if at else (0, 0)))

    def on_click(self, event: Click) -> None:
        """A click moves the cursor."""
        side = self._side
        if event.y >= 1 and event.x >= side:
            column = (event.x - side + self.scroll_offset.x) // self._cell
            self.move_to(column, event.y - 1 + self.scroll_offset.y)


def legend(pairs: Sequence[PairView]) -> Line:
    """Which sign stands for which state, and how many there are of each."""
    counts = Counter(pair.state for pair in pairs)
    parts: list[Part] = []
    for state, number in counts.most_common():
        glyph, role = fmt.PAIRS.get(state, fmt.FAILING)
        parts += [(glyph, role), (f" {clean(state)} {number}", ""), ("   ", "")]
    return tuple(parts[:-1])


def _prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to a dash: "decode-" of decode-0 and decode-12."""
    first = names[0] if len(names) > 1 else ""
    prefix = first[: first.rfind("-") + 1]
    return prefix if all(name.startswith(prefix) for name in names) else ""
