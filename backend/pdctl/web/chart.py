"""Latency over time as lines: percentiles of each slice, a gap where nothing ended. Pure.

Places are percentages of the chart, so that one drawing fits every screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pdctl.contract.latency import PointView, SeriesPage, SeriesView
from pdctl.web.latency import GROUPS

METRICS = ("ttft", "tpot", "itl")
WINDOWS = ((300, "5 min"), (3600, "1 h"))
QUANTILES = (("p50", "p50_ms"), ("p99", "p99_ms"))


@dataclass(frozen=True, slots=True)
class Line:
    """One percentile of one path, as the `d` of an SVG path."""

    group: str
    quantile: str
    d: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One metric."""

    metric: str
    lines: tuple[Line, ...]
    ticks: tuple[float, ...]
    """Milliseconds; the last is the top of the axis, 0 its foot."""
    rows: tuple[tuple[str, PointView], ...]
    """The same as a table: path and slice, newest first."""
    begins: datetime
    ends: datetime
    slice_s: int


def charts(page: SeriesPage, window_s: int) -> list[Chart]:
    """A chart for each metric, empty ones too."""
    known = {(one.metric, one.by): one for one in page.items}
    return [
        _chart(
            metric, [known[metric, by] for by in GROUPS if (metric, by) in known], page, window_s
        )
        for metric in METRICS
    ]


def _chart(metric: str, series: Sequence[SeriesView], page: SeriesPage, window_s: int) -> Chart:
    begins = page.at - timedelta(seconds=window_s)
    ticks = _ticks(max((p.p99_ms or 0.0 for one in series for p in one.points), default=0.0))
    lines = tuple(
        Line(one.by, name, _path(one, field, begins, window_s, ticks[-1]))
        for one in series
        if one.points
        for name, field in QUANTILES
    )
    rows = [(one.by, point) for one in series for point in one.points]
    rows.sort(key=lambda row: row[1].at, reverse=True)
    width = series[0].slice_s if series else 0
    return Chart(metric, lines, ticks, tuple(rows), begins, page.at, width)


def _path(one: SeriesView, field: str, begins: datetime, window_s: int, top: float) -> str:
    """Straight from slice to slice; a dot stands alone where its neighbours are missing."""
    steps: list[str] = []
    last: datetime | None = None
    for point in one.points:
        value = getattr(point, field)
        if value is None:
            continue
        middle = (point.at - begins).total_seconds() + one.slice_s / 2
        x = min(100.0, max(0.0, middle / window_s * 100))
        y = 100 - value / top * 100
        joined = last is not None and (point.at - last).total_seconds() < one.slice_s * 1.5
        steps.append(f"{'L' if joined else 'M'}{x:.2f} {y:.2f}" + ("" if joined else "h0"))
        last = point.at
    return "".join(steps)


def _ticks(most: float) -> tuple[float, ...]:
    """Round values from 0 to above `most`, three to six of them."""
    rough = max(most, 0.001) / 4
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= rough)
    return tuple(_rounded(step * number for number in range(math.ceil(most / step) + 1))) or (0.0,)


def _rounded(values: Iterable[float]) -> list[float]:
    found = [round(value, 6) for value in values]
    return found if len(found) > 1 else [0.0, 1.0]
