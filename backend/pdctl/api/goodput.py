"""/goodput: the share and rate of requests within each named objective, and why the rest missed."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Annotated

from fastapi import APIRouter, Query

from pdctl.api.context import Plane
from pdctl.api.histograms import Window
from pdctl.api.views import moment, simulated
from pdctl.contract.goodput import GoodputPage, GoodputView, SloView
from pdctl.control.goodput import Goodput
from pdctl.domain.errors import NotFoundError, OperatorError

router = APIRouter(prefix="/goodput", tags=["latency"])
MOST = 500
"""Objectives x groups x windows in one answer."""


@router.get("", operation_id="listGoodput")
async def list_goodput(
    plane: Plane,
    slo: Annotated[list[str] | None, Query(description="Default: all of them.")] = None,
    by: Annotated[
        list[str] | None, Query(description="Default: all, and each mode and pool that has data.")
    ] = None,
    window: Annotated[list[Window] | None, Query(description="Default: 300.")] = None,
) -> GoodputPage:
    """How many requests met each objective, by group."""
    slos = plane.state.fleet.desired.slos
    known = plane.goodput.groups()
    names = [one.name for one in slos]
    for one in slo or ():
        if one not in names:
            listed = ", ".join(names) or "none"
            raise NotFoundError(
                "no_such_slo", f"There is no objective {one!r}.",
                f"The fleet file has [slo.*]: {listed}.",
            )  # fmt: skip
    groups = by or ["all", *(one for one in known if one.startswith(("mode:", "pool:")))]
    wanted = list(product(slo or names, groups, window or [Window.FIVE_MINUTES]))
    if len(wanted) > MOST:
        raise OperatorError(
            "too_much_goodput", f"That would be {len(wanted)} counts at once.",
            f"Ask for at most {MOST}: objectives x groups x windows.",
        )  # fmt: skip
    return GoodputPage(
        simulated=simulated(plane),
        at=moment(plane.clock.now()),
        slos=[SloView(**asdict(one)) for one in slos],
        items=[goodput_view(plane.goodput.view(a, b, span.seconds)) for a, b, span in wanted],
        known=known,
    )


def goodput_view(found: Goodput) -> GoodputView:
    """One objective of one group."""
    tally = found.tally
    return GoodputView(
        slo=found.slo, by=found.by, window_s=found.window_s, span_s=found.span_s, met=tally.met,
        missed=tally.judged - tally.met, unjudged=tally.unjudged, share=tally.share,
        per_s=found.rate, causes={cause.value: count for cause, count in tally.missed.items()},
    )  # fmt: skip
