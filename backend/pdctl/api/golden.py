"""/golden: the same prompt greedily over P/D and whole must give the same tokens."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from pdctl.api.context import Plane, Who
from pdctl.api.views import moment, simulated
from pdctl.contract.golden import GoldenBody, GoldenPage, GoldenView
from pdctl.control.golden import GoldenChecks
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import ConflictError, OperatorError
from pdctl.domain.golden import Golden

router = APIRouter(prefix="/golden", tags=["latency"])


@router.get("", operation_id="listGolden")
async def list_golden(plane: Plane) -> GoldenPage:
    """The newest checks of this start."""
    checks = _checks(plane)
    return GoldenPage(
        simulated=simulated(plane), every_s=plane.state.fleet.desired.golden.every_s,
        items=[golden_view(one) for one in checks.newest],
    )  # fmt: skip


@router.post("", operation_id="checkGolden")
async def check_golden(body: GoldenBody, plane: Plane, who: Who) -> GoldenView:
    """Ask one proved pair both ways now; it takes as long as two answers."""
    if (body.prefill is None) != (body.decode is None):
        raise OperatorError("half_a_pair", "A pair has two ends.", "Give prefill and decode.")
    pair = None if body.prefill is None else (body.prefill, body.decode or "")
    return golden_view(await _checks(plane).ask(pair, actor=who.actor, source=who.source))


def golden_view(found: Golden) -> GoldenView:
    """One check."""
    return GoldenView(**{**asdict(found), "at": moment(found.at)})


def _checks(plane: ControlPlane) -> GoldenChecks:
    if plane.golden is None:
        raise ConflictError("no_golden", "There is no engine to ask.", "Ask a running fleet.")
    return plane.golden
