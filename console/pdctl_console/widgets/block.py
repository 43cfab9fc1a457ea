"""A few lines drawn to the width there is; redrawn only when they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widget import Widget

from pdctl_console.styled import Line, content, text_of

Draw = Callable[[int], Sequence[Line]]
"""Lines for a width in cells."""


class Block(Widget):
    """Told how to draw itself; compares before it repaints."""

    def __init__(self, draw: Draw | None = None, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._draw: Draw = draw or (lambda _width: ())
        self._lines: tuple[Line, ...] = ()

    def put(self, *lines: Line) -> None:
        """Show these lines."""
        self.sketch(lambda _width: lines)

    def sketch(self, draw: Draw) -> None:
        """Show what `draw` gives, now and after each resize."""
        self._draw = draw
        self._redraw()

    def on_resize(self) -> None:
        """Another width, other lines."""
        self._redraw()

    def render(self) -> Content:
        """The lines as content."""
        return content(self._lines)

    def _redraw(self) -> None:
        lines = tuple(self._draw(self.size.width))
        if lines == self._lines:
            return
        moved = [text_of(one) for one in lines] != [text_of(one) for one in self._lines]
        self._lines = lines
        grows = self.styles.height is not None and self.styles.height.is_auto
        self.refresh(layout=moved and grows)
