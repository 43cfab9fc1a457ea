"""Long lists a page at a time, newest first; a page starts after a named item, so that what comes
in meanwhile does not shift it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and where the older ones begin."""

    items: tuple[T, ...]
    before: str
    """The item that this page starts after; empty for the newest."""
    next: str
    """`before` of the page of older ones; empty when there are none."""


def newest_first(
    items: Sequence[T], before: str | None, size: int, name: Callable[[T], str]
) -> Page[T]:
    """The page after `before` of items that come newest first; an unknown name is the first."""
    names = [name(one) for one in items]
    known = before if before in names else ""
    start = names.index(known) + 1 if known else 0
    shown = tuple(items[start : start + size])
    more = start + size < len(items)
    return Page(shown, known, name(shown[-1]) if more else "")


def whole_pages(items: Sequence[T], before: str, size: int, name: Callable[[T], str]) -> Page[T]:
    """A page that the server cut: as many as were asked for means that there may be more."""
    return Page(tuple(items), before, name(items[-1]) if len(items) == size else "")


def number(text: str | None) -> int | None:
    """A position out of a URL; None when it is none."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None
