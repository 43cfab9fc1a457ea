"""Roles as Rich styles, from the style sheet, for widgets that draw line by line."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from pdctl_console.styled import STYLES, Line

ROLES = frozenset(f"role--{role}" for role in STYLES if role)
"""Component classes that a painting widget must have."""


def style_of(widget: Widget, role: str, base: Style) -> Style:
    """The style of a role on `base` (which keeps its background)."""
    if not role:
        return base
    return base + _ink(widget.get_component_rich_style(f"role--{role}"))


@lru_cache(maxsize=256)
def _ink(style: Style) -> Style:
    """A style without its background. A partial component style would not blend its alpha."""
    return Style(color=style.color, bold=style.bold or None, reverse=style.reverse or None)


def strip(widget: Widget, line: Line, base: Style) -> Strip:
    """A line as a strip."""
    return Strip([Segment(text, style_of(widget, role, base)) for text, role in line])
