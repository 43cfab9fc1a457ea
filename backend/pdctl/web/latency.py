"""Latency distributions for the eye: a table of percentiles and bars on a shared log axis.

Pure. Percentiles are the server's; bars only regroup its bucket counts, nothing is averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pdctl.contract.resources import HistogramView

WINDOWS: tuple[tuple[int | None, str], ...] = (
    (60, "1 min"), (300, "5 min"), (3600, "1 h"), (None, "since start"),
)  # fmt: skip
METRICS = ("ttft", "tpot", "itl", "e2e", "queue", "prefill", "transfer")
GROUPS = ("mode:pd", "mode:chunked", "mode:aggregated")
BARS = 32


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its place on the axis and its height, both 0..100, and what it counts."""

    x: float
    width: float
    height: float
    low_ms: float
    high_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one group (a path) with its bars."""

    group: str
    view: HistogramView | None
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric: its groups on one shared axis from `low_ms` to `high_ms`."""

    metric: str
    series: tuple[Series, ...]
    low_ms: float | None
    high_ms: float | None

    @property
    def empty(self) -> bool:
        """True when nothing was measured in the window."""
        return self.low_ms is None


def window_of(text: str | None) -> int | None:
    """The window named in a URL; anything unknown is five minutes."""
    known = {"all" if size is None else str(size): size for size, _ in WINDOWS}
    return known.get(text or "", 300)


def rows(views: Sequence[HistogramView]) -> list[Row]:
    """Every metric in reading order, its groups side by side on one axis."""
    found = {(view.metric, view.by): view for view in views if view.count}
    return [_row(metric, [found.get((metric, group)) for group in GROUPS]) for metric in METRICS]


def _row(metric: str, views: list[HistogramView | None]) -> Row:
    edges = [
        edge for view in views if view for low, high, _ in view.buckets for edge in (low, high)
    ]
    if not edges:
        pairs = zip(GROUPS, views, strict=True)
        return Row(metric, tuple(Series(group, view, ()) for group, view in pairs), None, None)
    low, high = max(min(edges), 0.01), max(*edges, 0.02)
    return Row(
        metric,
        tuple(
            Series(group, view, _bars(view, low, high))
            for group, view in zip(GROUPS, views, strict=True)
        ),
        low,
        high,
    )


def _bars(view: HistogramView | None, low: float, high: float) -> tuple[Bar, ...]:
    if view is None:
        return ()
    start, reach = math.log(low), max(math.log(high) - math.log(low), 1e-9)
    counts = [0] * BARS
    for lower, upper, number in view.buckets:
        middle = math.log(math.sqrt(max(lower, low) * max(upper, low)))
        counts[min(BARS - 1, max(0, int((middle - start) / reach * BARS)))] += number
    top, wide = max(counts) or 1, 100 / BARS
    return tuple(
        Bar(
            x=round(place * wide, 2),
            width=round(wide * 0.86, 2),
            height=round(max(3.0, number / top * 100), 1),
            low_ms=math.exp(start + reach * place / BARS),
            high_ms=math.exp(start + reach * (place + 1) / BARS),
            count=number,
        )
        for place, number in enumerate(counts)
        if number
    )
