"""/bundle: the last hours of this fleet in one file, secrets masked, to look at somewhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from pdctl import __version__
from pdctl.api.context import Plane
from pdctl.api.errors import problem
from pdctl.api.views import simulated
from pdctl.domain.bundle import Manifest

router = APIRouter(tags=["bundle"])
ZIP = "application/zip"
CHUNK = 256 * 1024
DESCRIBED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The bundle.", "content": {ZIP: {}}}
}


@router.get("/bundle", operation_id="getBundle", response_class=Response, responses=DESCRIBED)
async def get_bundle(
    plane: Plane,
    last_s: Annotated[
        int, Query(ge=60, le=31 * 86_400, description="So many seconds of history.")
    ] = 7200,
) -> Response:
    """Facts, requests, latency, signals and changes of the last hours; `pdctl open` shows them."""
    if plane.bundled is None:
        return problem(404, "no_bundle", "This pdctl keeps nothing that it could hand out.")
    now = plane.clock.now()
    about = Manifest(
        fleet=plane.state.fleet.desired.name, simulated=simulated(plane), since=now - last_s,
        until=now, schema="", version=__version__,
    )  # fmt: skip
    at = datetime.fromtimestamp(now, UTC)
    name = f"pdctl-{about.fleet}-{at:%Y%m%dT%H%M%SZ}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{_safe(name)}"'}
    return StreamingResponse(_sent(plane.bundled(about)), media_type=ZIP, headers=headers)


async def _sent(bundle: AbstractAsyncContextManager[Path]) -> AsyncIterator[bytes]:
    async with bundle as path:
        with path.open("rb") as file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                yield chunk


def _safe(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)
