"""/truth: whether KV that was handed over really moved, and the leases that are open."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from pdctl.api.context import Plane
from pdctl.api.histograms import Window
from pdctl.api.views import moment, simulated
from pdctl.contract.truth import LeaseView, StrandedView, TruthPage, TruthView
from pdctl.domain.truth import Counts, Kv

router = APIRouter(prefix="/truth", tags=["latency"])


@router.get("", operation_id="getTruth")
async def get_truth(
    plane: Plane, window: Annotated[Window, Query(description="How far back.")] = Window.HOUR
) -> TruthPage:
    """Handed-over requests by what became of their KV: silent recomputes, expired leases."""
    book, now = plane.truth, plane.clock.now()
    lease_s = float(plane.state.fleet.desired.connector.lease_s)
    found = {by: book.view(by, window.seconds) for by in book.groups()}
    return TruthPage(
        simulated=simulated(plane),
        at=moment(now),
        window_s=window.seconds,
        fleet=truth_view("all", found.pop("all", Counts())),
        groups=[truth_view(by, one) for by, one in found.items() if one.total],
        pending=book.pending,
        leases=[
            LeaseView(
                prefill=one.prefill, requests=one.requests, oldest_s=one.oldest_s, lease_s=lease_s
            )
            for one in book.leases()
        ],
        stranded=[
            StrandedView(
                request=one.request, prefill=one.prefill, tokens=one.tokens, age_s=now - one.since,
                lease_s=lease_s, why=one.why,
            )
            for one in book.stranded()
        ],
    )  # fmt: skip


def truth_view(by: str, counts: Counts) -> TruthView:
    """One group."""
    found = {name: round(count) for name, count in counts.by.items()}
    good = found.get(Kv.MOVED, 0) + found.get(Kv.CACHED, 0)
    judged = good + found.get(Kv.RECOMPUTED, 0)
    known = {name: count for name, count in found.items() if name in TruthView.model_fields}
    return TruthView(by=by, share=good / judged if judged else None, **known)
