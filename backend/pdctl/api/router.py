"""/router: how instances are chosen. Switching it restarts nothing and drops nothing."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from pdctl import plugins
from pdctl.api.context import Plane, Who
from pdctl.api.desired import want
from pdctl.api.etag import Expected, tag
from pdctl.api.views import simulated
from pdctl.contract.router import KvEventsView, RouterPatch, RouterView
from pdctl.control.plane import ControlPlane
from pdctl.domain import live
from pdctl.domain.change import Change

_TOLD = ("why_not", "blocks", "gaps", "replays", "forgotten")
router = APIRouter(prefix="/router", tags=["router"])


@router.get("", operation_id="getRouter")
async def get_router(plane: Plane, response: Response) -> RouterView:
    """The settings in force."""
    tag(response, plane)
    return _view(plane)


@router.patch("", operation_id="patchRouter")
async def patch_router(
    body: RouterPatch, *, request: Request, response: Response, plane: Plane, who: Who,
    expected: Expected = None,
) -> RouterView:  # fmt: skip
    """Route new requests so from now on. `Location` names the operation, which is done."""
    wanted = tuple(body.model_dump(exclude_none=True).items())
    desired = plane.state.fleet.desired
    live.refuse_unknown(
        live.switched(desired.router, wanted)[0], plugins.names(plugins.POLICIES), desired.slos
    )
    change = Change(router=wanted)
    await want(plane, change, who, expected=expected, request=request, response=response)
    return _view(plane)


def _followed(plane: ControlPlane) -> list[KvEventsView]:
    now = plane.clock.now()
    found = []
    for id_, one in sorted(plane.load().kv_events.items()):
        age = None if one.last_event is None else max(0.0, now - one.last_event)
        told = {name: getattr(one, name) for name in _TOLD}
        found.append(KvEventsView(instance=id_, last_event_age_s=age, **told))
    return found


def _view(plane: ControlPlane) -> RouterView:
    desired = plane.state.fleet.desired
    return RouterView(
        **{name: getattr(desired.router, name) for name in live.LIVE},
        policies=list(plugins.names(plugins.POLICIES)),
        workers=desired.router.workers,
        revision=desired.revision,
        kv_events=_followed(plane),
        simulated=simulated(plane),
    )
