"""Sliding windows over anything that adds up: short slices, a window is the sum of its slices.

Memory is bounded: 10 s slices for five minutes, 1 min slices for an hour, one total. Times are
monotonic seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, Self, TypeVar

SLICE_S = 10
COARSE_S = 60
FINE_SPAN_S = 300
COARSE_SPAN_S = 3600


class Sum(Protocol):
    """What adds up."""

    @property
    def total(self) -> int:
        """How much it holds; 0: nothing."""
        ...

    def merge(self, other: Self) -> None:
        """Add all that `other` holds."""
        ...


T = TypeVar("T", bound=Sum)


def slice_s(window_s: float) -> int:
    """How long the slices are that a window consists of, in seconds."""
    return SLICE_S if window_s <= FINE_SPAN_S else COARSE_S


class Windowed(Generic[T]):
    """One series. Only the current slice is written; it is folded when it ends."""

    __slots__ = ("_new", "coarse", "current", "fine", "index", "total")

    def __init__(self, new: Callable[[], T]) -> None:
        self._new = new
        self.index = -1
        self.current = new()
        self.fine: deque[tuple[int, T]] = deque(maxlen=FINE_SPAN_S // SLICE_S + 1)
        self.coarse: deque[tuple[int, T]] = deque(maxlen=COARSE_SPAN_S // COARSE_S + 2)
        self.total = new()

    def at(self, index: int) -> T:
        """The slice of that number (`now // SLICE_S`), which is open."""
        if index != self.index:
            self._fold()
            self.index, self.current = index, self._new()
        return self.current

    def _fold(self) -> None:
        if not self.current.total:
            return
        self.fine.append((self.index, self.current))
        self.total.merge(self.current)
        minute = self.index * SLICE_S // COARSE_S
        if not self.coarse or self.coarse[-1][0] != minute:
            self.coarse.append((minute, self._new()))
        self.coarse[-1][1].merge(self.current)

    def view(self, now: float, window_s: float | None) -> T:
        """Everything in the window, which is rounded up to whole slices; None: all of it."""
        merged = self._new()
        for part in self._parts(now, window_s):
            merged.merge(part)
        return merged

    def _parts(self, now: float, window_s: float | None) -> Iterator[T]:
        if window_s is None:
            yield self.total
            yield self.current
            return
        width = slice_s(window_s)
        slices = self.fine if width == SLICE_S else self.coarse
        first = (now - window_s) // width
        yield from (part for index, part in slices if index >= first)
        if self.index * SLICE_S // width >= first:
            yield self.current

    def slices(self, now: float, window_s: float) -> Iterator[tuple[float, T]]:
        """The slices of the window in which something was counted, oldest first, and each one's
        age in seconds at its beginning."""
        width = slice_s(window_s)
        found = dict(self.fine if width == SLICE_S else self.coarse)
        index = self.index * SLICE_S // width
        merged = self._new()
        if index in found:
            merged.merge(found[index])
        merged.merge(self.current)
        first = (now - window_s) // width
        for at, part in sorted({**found, index: merged}.items()):
            if at >= first and part.total:
                yield now - at * width, part

    def minute(self, number: int) -> T:
        """What was counted in one minute (`now // COARSE_S`) of the last hour."""
        merged = self._new()
        for at, part in self.coarse:
            if at == number:
                merged.merge(part)
        if self.index * SLICE_S // COARSE_S == number:
            merged.merge(self.current)
        return merged
