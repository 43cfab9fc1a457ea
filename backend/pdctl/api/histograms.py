"""/histograms: latency as the router measured it, over windows, merged by adding buckets."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from itertools import product
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from pdctl.api.context import Plane
from pdctl.api.sides import between
from pdctl.api.views import moment, simulated
from pdctl.contract.latency import PointView, SeriesPage, SeriesView
from pdctl.contract.resources import HistogramPage, HistogramView
from pdctl.control.latency import METRICS
from pdctl.control.plane import ControlPlane
from pdctl.control.windows import slice_s
from pdctl.domain.errors import OperatorError
from pdctl.domain.histogram import Histogram

router = APIRouter(prefix="/histograms", tags=["latency"])
MOST = 2000
"""Histograms in one answer."""


class Metric(StrEnum):
    """What is measured, at the router, in milliseconds."""

    TTFT = "ttft"
    TPOT = "tpot"
    ITL = "itl"
    E2E = "e2e"
    QUEUE = "queue"
    PREFILL = "prefill"
    """Computing the prompt: the prefill leg, or a whole leg up to its first byte."""
    TRANSFER = "transfer"
    """Decode's admission and its pull of the KV."""


class Window(StrEnum):
    """How far back, in seconds."""

    MINUTE = "60"
    FIVE_MINUTES = "300"
    HOUR = "3600"
    ALL = "all"

    @property
    def seconds(self) -> int | None:
        """Seconds, None since the start."""
        return None if self is Window.ALL else int(self.value)


Metrics = Annotated[list[Metric] | None, Query(description="Default: all of them.")]
Groups = Annotated[
    list[str] | None,
    Query(description='"all", "mode:pd", "pool:decode", "model:NAME", "pair:P>D"; see `known`.'),
]
Windows = Annotated[list[Window] | None, Query(description='Seconds, or "all". Default: 300.')]


Moment = Annotated[
    str | None,
    Query(max_length=64, description='"24h" (ago), ISO 8601, or a mark; in whole minutes.'),
]


@router.get("", operation_id="listHistograms")
async def list_histograms(
    plane: Plane,
    *,
    metric: Metrics = None,
    by: Groups = None,
    window: Windows = None,
    since: Moment = None,
    until: Moment = None,
) -> HistogramPage:
    """Every metric x by x window that was asked for; an empty one has count 0. With `since`, what
    was between two moments, however long ago: of all, modes, pools and models."""
    if since is not None:
        return await _between(plane, metric or list(Metric), by or ["all"], since, until)
    wanted = list(
        product(
            metric or [Metric(name) for name in METRICS],
            by or ["all"],
            window or [Window.FIVE_MINUTES],
        )
    )
    if len(wanted) > MOST:
        raise OperatorError(
            "too_many_histograms", f"That would be {len(wanted)} histograms at once.",
            f"Ask for at most {MOST}: metrics x groups x windows.",
        )  # fmt: skip
    items = []
    for one, group, span in wanted:
        found = plane.latency.view(one, group, span.seconds)
        items.append(histogram_view(found, one.value, group, span.seconds))
        await asyncio.sleep(0)  # requests are routed on this loop: they go first
    return HistogramPage(
        simulated=simulated(plane), at=moment(plane.clock.now()), items=items,
        known=plane.latency.groups(),
    )  # fmt: skip


async def _between(
    plane: ControlPlane, metrics: list[Metric], groups: list[str], since: str, until: str | None
) -> HistogramPage:
    sides = [await between(plane, by, since, until) for by in groups[:MOST]]
    items = [
        histogram_view(one.of(metric.value), metric.value, one.view.by, None)
        for metric, one in product(metrics, sides)
    ]
    return HistogramPage(
        simulated=simulated(plane), at=moment(plane.clock.now()), items=items,
        known=plane.latency.groups(), since=sides[0].view.since, until=sides[0].view.until,
    )  # fmt: skip


@router.get("/series", operation_id="listLatencySeries")
async def list_series(
    plane: Plane,
    metric: Metrics = None,
    by: Groups = None,
    window: Annotated[
        Literal["300", "3600"], Query(description="Seconds: in slices of 10, or of 60.")
    ] = "300",
) -> SeriesPage:
    """Percentiles over time: each metric x group, sliced; a slice in which nothing ended is left
    out, never filled."""
    wanted = list(product(metric or [Metric.TTFT, Metric.TPOT, Metric.ITL], by or ["all"]))
    if len(wanted) > MOST // 10:
        raise OperatorError(
            "too_many_series", f"That would be {len(wanted)} series at once.",
            f"Ask for at most {MOST // 10}: metrics x groups.",
        )  # fmt: skip
    now, span = plane.clock.now(), int(window)
    items = []
    for one, group in wanted:
        found = plane.latency.series(one.value, group, span)
        points = [point_view(now - age, part) for age, part in found]
        items.append(
            SeriesView(
                metric=one.value, by=group, window_s=span, slice_s=slice_s(span), points=points
            )
        )
        await asyncio.sleep(0)
    return SeriesPage(simulated=simulated(plane), at=moment(now), items=items)


def point_view(at: float, part: Histogram) -> PointView:
    """One slice."""
    return PointView(
        at=moment(at), count=part.total, p50_ms=part.quantile(0.50),
        p90_ms=part.quantile(0.90), p99_ms=part.quantile(0.99),
    )  # fmt: skip


def histogram_view(
    histogram: Histogram, metric: str, by: str, window_s: int | None
) -> HistogramView:
    """One distribution."""
    return HistogramView(
        metric=metric,
        by=by,
        window_s=window_s,
        count=histogram.total,
        p50_ms=histogram.quantile(0.50),
        p90_ms=histogram.quantile(0.90),
        p99_ms=histogram.quantile(0.99),
        max_ms=histogram.max_ms,
        buckets=list(histogram.rows()),
    )
