"""/histograms/compare: two groups, or two times, side by side, with intervals."""

from __future__ import annotations

import asyncio
from itertools import product
from random import Random
from typing import Annotated

from fastapi import APIRouter, Query

from pdctl.api.context import Plane
from pdctl.api.histograms import Metric
from pdctl.api.sides import Side, side
from pdctl.api.views import moment, simulated
from pdctl.contract.compare import ComparePage, DifferenceView, EstimateView
from pdctl.domain.compare import LEVEL, Difference, Estimate, compare, needed

router = APIRouter(prefix="/histograms", tags=["latency"])
SEED = 1
GAPS = "Gaps of one stream are alike: the intervals of itl are narrower than the truth."
Asked = Annotated[
    str,
    Query(
        max_length=400,
        description='GROUP@TIME, for example "mode:pd@3600", "all@before-switch", '
        '"pool:decode@2h..1h". TIME: 60, 300, 3600, all, or SINCE[..UNTIL], each a duration '
        "back, ISO 8601 or a mark.",
    ),
]
Share = Annotated[float, Query(ge=0.001, le=0.9999)]


@router.get("/compare", operation_id="compareLatency")
async def compare_latency(
    plane: Plane,
    a: Asked,
    b: Asked,
    metric: Annotated[list[Metric] | None, Query(max_length=7)] = None,
    q: Annotated[
        list[Share] | None, Query(description="Default: 0.5 and 0.99.", max_length=9)
    ] = None,
) -> ComparePage:
    """By how much each quantile of b differs from a's, and how sure that is."""
    first, second = await side(plane, a), await side(plane, b)
    metrics = [one.value for one in metric or (Metric.TTFT, Metric.TPOT, Metric.ITL, Metric.E2E)]
    return ComparePage(
        simulated=simulated(plane), at=moment(plane.clock.now()), level=LEVEL,
        a=first.view, b=second.view,
        items=await asyncio.to_thread(_compared, first, second, metrics, q or [0.5, 0.99]),
        note=GAPS if Metric.ITL.value in metrics else "",
    )  # fmt: skip


def _compared(a: Side, b: Side, metrics: list[str], shares: list[float]) -> list[DifferenceView]:
    rng = Random(SEED)  # noqa: S311 - the same question gets the same answer
    return [
        difference_view(compare(a.of(one), b.of(one), q, rng), one, q)
        for one, q in product(metrics, shares)
    ]


def difference_view(found: Difference, metric: str, q: float) -> DifferenceView:
    """One quantile of one metric."""
    return DifferenceView(
        metric=metric, q=q, a=_estimate(found.first), b=_estimate(found.second),
        found=found.found.value, ms=found.value, low_ms=found.low, high_ms=found.high,
        needed=needed(q),
    )  # fmt: skip


def _estimate(one: Estimate) -> EstimateView:
    return EstimateView(count=one.count, ms=one.value, low_ms=one.low, high_ms=one.high)
