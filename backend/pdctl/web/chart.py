"""Latency and throughput over time as lines; a gap where nothing ended. Pure.

Every chart is made twice from the same values: as SVG paths in percentages of the chart, which need
no script and fit every screen, and as columns for the drawing library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pdctl.contract.latency import PointView, SeriesPage, SeriesView
from pdctl.web.present import group

METRICS = ("ttft", "tpot", "itl")
COUNTED = "e2e"
"""The metric whose counts are the throughput: every generation that ended has one."""
WINDOWS = ((300, "5 min"), (3600, "1 h"))
MODES = {"mode:pd": "pd", "mode:chunked": "chunked", "mode:aggregated": "warn"}
"""The paths, each with its colour."""
COLOURS = ("prefill", "decode", "transfer", "chunked", "warn", "pd")
"""The colours of pools, in the order in which the fleet file names them."""

Value = Callable[[SeriesView, PointView], float | None]
QUANTILES: tuple[tuple[str, Value], ...] = (
    ("p50", lambda _, point: point.p50_ms),
    ("p99", lambda _, point: point.p99_ms),
)
RATES: tuple[tuple[str, Value], ...] = (("per second", lambda one, at: at.count / one.slice_s),)


@dataclass(frozen=True, slots=True)
class Line:
    """One percentile, or the rate, of one group: its colour and the `d` of an SVG path."""

    group: str
    quantile: str
    colour: str
    d: str
    values: tuple[float | None, ...]
    """One for each of the chart's times; None is a gap."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One metric; `unit` is "ms" or "/s"."""

    metric: str
    unit: str
    lines: tuple[Line, ...]
    ticks: tuple[float, ...]
    """In `unit`; the last is the top of the axis, 0 its foot."""
    rows: tuple[tuple[str, PointView], ...]
    """The same as a table: group and slice, newest first."""
    begins: datetime
    ends: datetime
    slice_s: int
    times: tuple[float, ...]
    """The middle of every slice, at most the chart's end; seconds since 1970."""

    @property
    def columns(self) -> str:
        """JSON for the drawing library."""
        lines = [
            {
                "label": f"{group(one.group)} {one.quantile}", "colour": one.colour,
                "dashed": one.quantile == "p50", "values": one.values,
            }
            for one in self.lines
        ]  # fmt: skip
        span = [self.begins.timestamp(), self.ends.timestamp()]
        return json.dumps({"unit": self.unit, "span": span, "times": self.times, "lines": lines})


def charts(page: SeriesPage, window_s: int, groups: dict[str, str]) -> list[Chart]:
    """A chart for each metric, then the throughput; empty ones too. `groups`: name to colour."""
    known = {(one.metric, one.by): one for one in page.items}

    def of(metric: str) -> list[SeriesView]:
        found = [known[metric, by] for by in groups if (metric, by) in known]
        return [one for one in found if one.points]

    span = (page.at - timedelta(seconds=window_s), page.at)
    latencies = [_chart(name, of(name), QUANTILES, span, groups) for name in METRICS]
    ended = [_whole(one, page.at) for one in of(COUNTED)]
    whole = [one for one in ended if one.points]
    return [*latencies, _chart("rate", whole, RATES, span, groups)]


def _whole(one: SeriesView, now: datetime) -> SeriesView:
    """Without the slice that is still open: it would look like a fall."""
    closed = [point for point in one.points if point.at + timedelta(seconds=one.slice_s) <= now]
    return one.model_copy(update={"points": closed})


def _chart(
    metric: str,
    series: Sequence[SeriesView],
    fields: tuple[tuple[str, Value], ...],
    span: tuple[datetime, datetime],
    groups: dict[str, str],
) -> Chart:
    begins, ends = span
    slice_s = series[0].slice_s if series else 0
    starts = _starts(series, slice_s)
    rate = fields is RATES
    found = [
        (one.by, name, _values(one, value, starts, 0.0 if rate else None))
        for one in series
        for name, value in fields
    ]
    ticks = _ticks(max((v or 0.0 for _, _, values in found for v in values), default=0.0))
    width = (ends - begins).total_seconds()
    places = [((at - begins).total_seconds() + slice_s / 2) / width * 100 for at in starts]
    rows = [(one.by, point) for one in series for point in one.points]
    rows.sort(key=lambda row: row[1].at, reverse=True)
    lines = tuple(
        Line(by, name, groups[by], _path(values, places, ticks[-1]), values)
        for by, name, values in found
    )
    last = ends.timestamp()  # the open slice has its middle in the future
    times = tuple(min(last, round(at.timestamp() + slice_s / 2, 3)) for at in starts)
    return Chart(
        metric, "/s" if rate else "ms", lines, ticks, tuple(rows), begins, ends, slice_s, times
    )


def _starts(series: Sequence[SeriesView], slice_s: int) -> list[datetime]:
    """When each slice began, from the first that holds anything to the last, none left out."""
    every = [point.at for one in series for point in one.points]
    if not every:
        return []
    first = min(every)
    return [
        first + timedelta(seconds=slice_s * place)
        for place in range(round((max(every) - first).total_seconds() / slice_s) + 1)
    ]


def _values(
    one: SeriesView, value: Value, starts: list[datetime], missing: float | None
) -> tuple[float | None, ...]:
    found: list[float | None] = [missing] * len(starts)
    for point in one.points:
        place = round((point.at - starts[0]).total_seconds() / one.slice_s)
        found[place] = value(one, point)
    return tuple(found)


def _path(values: Sequence[float | None], places: Sequence[float], top: float) -> str:
    """Straight from slice to slice; a dot stands alone where its neighbours are missing."""
    steps: list[str] = []
    joined = False
    for value, place in zip(values, places, strict=True):
        if value is not None:
            x, y = min(100.0, max(0.0, place)), 100 - value / top * 100
            steps.append(f"{'L' if joined else 'M'}{x:.2f} {y:.2f}" + ("" if joined else "h0"))
        joined = value is not None
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
