"""GET /fleet, /pools, /pairs: desired beside observed, at one position of the feed."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from pdctl.api.context import Plane
from pdctl.api.etag import tag
from pdctl.api.fields import Fields, trimmed
from pdctl.api.rates import Rates
from pdctl.api.views import fleet_view, pair_views, pool_view
from pdctl.contract.resources import FleetView, PairView, PoolView
from pdctl.domain.errors import NotFoundError

router = APIRouter(tags=["fleet"])
Pairs = Annotated[
    bool, Query(description="False leaves `pairs` empty: a big fleet has thousands of them.")
]


@router.get("/fleet", operation_id="getFleet")
async def get_fleet(
    request: Request, response: Response, plane: Plane, pairs: Pairs = True
) -> FleetView:
    """The whole fleet. Then watch `/events` from `epoch`-`seq`: nothing is missed between."""
    tag(response, plane)
    return fleet_view(plane, cast("Rates", request.app.state.rates), pairs=pairs)


@router.get("/pools", operation_id="listPools")
async def list_pools(plane: Plane, response: Response) -> list[PoolView]:
    """Every pool: desired size, ready instances, worst phase."""
    tag(response, plane)
    fleet = plane.state.fleet
    return [pool_view(fleet, pool) for pool in fleet.desired.pools]


@router.get("/pools/{name}", operation_id="getPool")
async def get_pool(name: str, plane: Plane, response: Response) -> PoolView:
    """One pool."""
    tag(response, plane)
    fleet = plane.state.fleet
    pool = fleet.desired.pool(name)
    if pool is None:
        known = ", ".join(one.name for one in fleet.desired.pools) or "none"
        raise NotFoundError("no_such_pool", f"There is no pool {name!r}.", f"Pools: {known}.")
    return pool_view(fleet, pool)


@router.get(
    "/pairs", operation_id="listPairs", response_model=list[PairView] | list[dict[str, Any]]
)
async def list_pairs(plane: Plane, fields: Fields = None) -> list[PairView] | Response:
    """Every prefill x decode pair and whether its handoff works."""
    found = pair_views(plane.state.fleet)
    return found if fields is None else JSONResponse(trimmed(found, PairView, fields))
