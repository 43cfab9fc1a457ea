"""PUT /pools/{name} and PUT /fleet: want this now. Each is a plan, made and applied in one step."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response

from pdctl.api.context import Caller, Plane, Who
from pdctl.api.etag import Expected, tag
from pdctl.api.plans import bad_file, read_file
from pdctl.api.rates import Rates
from pdctl.api.views import fleet_view, pool_view
from pdctl.contract.plans import FleetPut, PoolPut
from pdctl.contract.resources import FleetView, PoolView
from pdctl.control.plane import ControlPlane
from pdctl.control.plans import NOTHING
from pdctl.domain.change import Change
from pdctl.domain.errors import NotFoundError
from pdctl.fleetfile import ERROR

router = APIRouter(tags=["fleet"])


@router.put("/pools/{name}", operation_id="putPool", status_code=202)
async def put_pool(
    name: str, body: PoolPut, *, request: Request, response: Response, plane: Plane, who: Who,
    expected: Expected = None,
) -> PoolView:  # fmt: skip
    """Make a pool this large; 200 when it is. Follow the operation that `Location` names."""
    if plane.state.fleet.desired.pool(name) is None:
        known = ", ".join(one.name for one in plane.state.fleet.desired.pools) or "none"
        raise NotFoundError("no_such_pool", f"There is no pool {name!r}.", f"Pools: {known}.")
    change = Change(sizes=((name, body.size),))
    await want(plane, change, who, expected=expected, request=request, response=response)
    fleet = plane.state.fleet
    pool = fleet.desired.pool(name)
    if pool is None:
        raise NotFoundError("no_such_pool", f"{name} has been removed meanwhile.")
    return pool_view(fleet, pool)


@router.put("/fleet", operation_id="putFleet", status_code=202, response_model=FleetView)
async def put_fleet(
    body: FleetPut, *, request: Request, response: Response, plane: Plane, who: Who,
    expected: Expected = None,
) -> FleetView | Response:  # fmt: skip
    """Want what a fleet file says; 200 when it is so. Instances change one at a time."""
    fleet, mistakes = await read_file(body.file, body.file_path)
    if errors := [one for one in mistakes if one.severity == ERROR]:
        return bad_file(errors)
    change = Change(fleet=fleet)
    await want(plane, change, who, expected=expected, request=request, response=response)
    return fleet_view(plane, cast("Rates", request.app.state.rates), pairs=False)


async def want(
    plane: ControlPlane, change: Change, who: Caller, *, expected: frozenset[int] | None,
    request: Request, response: Response,
) -> None:  # fmt: skip
    """Plan and apply `change`, unless the fleet is like that already: then the answer is a 200."""
    record = await plane.plans.make(change, actor=who.actor, source=who.source)
    as_wanted = [one.code for one in record.refused] == [NOTHING]
    here = plane.state.fleet.desired.revision
    if as_wanted and (expected is None or here in expected):
        response.status_code = 200
    else:
        run = await plane.plans.apply(
            record.id, actor=who.actor, source=who.source, expected=expected, unseen=True
        )
        root = request.url.path.partition("/api/v1/")[0]
        response.headers["location"] = f"{root}/api/v1/operations/{run.id}"
    tag(response, plane)
