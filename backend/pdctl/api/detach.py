"""/detach: end this control plane and leave engines and router workers to the next one."""

from __future__ import annotations

import os

from fastapi import APIRouter

from pdctl.api.context import Plane, Who
from pdctl.contract.resources import DetachView
from pdctl.domain.lifecycle import ALIVE

router = APIRouter(tags=["health"])


@router.post("/detach", operation_id="detach", status_code=202)
async def detach(plane: Plane, who: Who) -> DetachView:
    """Let go of the fleet and end; 409 where that would cut requests or end engines."""
    plane.handover.begin(actor=who.actor, source=who.source)
    return DetachView(
        pid=os.getpid(),
        instances=[one.id for one in plane.state.fleet.instances if one.phase in ALIVE],
        router_workers=[one.pid for one in plane.router_workers()],
    )
