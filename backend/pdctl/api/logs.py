"""/instances/{id}/logs: what the engine wrote, as plain text; `follow` streams what comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from pdctl.api.context import OpenStreams, Plane, Streams
from pdctl.api.instances import Id, find
from pdctl.api.streams import until
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import NotFoundError
from pdctl.domain.lifecycle import ALIVE

router = APIRouter(prefix="/instances", tags=["logs"])
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
MOST = 10_000
"""Lines of the past that are given at most."""
LOOK_S = 2.0
"""How long a followed log is quiet before it is asked whether there is a newer one."""
Tail = Annotated[int, Query(ge=0, le=MOST, description="Lines from the end.")]
Previous = Annotated[bool, Query(description="The log of the start before this one.")]
Follow = Annotated[bool, Query(description="Stay, and stream what is written from now on.")]


@router.get("/{id}/logs", operation_id="getInstanceLogs", response_class=PlainTextResponse)
async def get_logs(
    id_: Id,
    plane: Plane,
    streams: OpenStreams,
    *,
    tail: Tail = 200,
    follow: Follow = False,
    previous: Previous = False,
) -> Response:
    """The log of an engine as text, or of a router worker ("router-0", all its starts).

    A followed log goes on with the instance's next start. It ends when the instance has left the
    fleet, when the server stops, or when you hang up.
    """
    path = await _path(plane, id_, previous)
    if not follow:
        lines = await asyncio.to_thread(plane.read_tail, path, tail)
        return PlainTextResponse("".join(f"{line}\n" for line in lines), headers=HEADERS)
    source = (_lines if previous else _starts)(plane, streams, id_, path, tail)
    return StreamingResponse(source, media_type="text/plain; charset=utf-8", headers=HEADERS)


async def _starts(
    plane: ControlPlane, streams: Streams, id_: str, path: Path, tail: int
) -> AsyncGenerator[str, None]:
    """One log after the other, as the instance is started again."""
    while True:
        async with aclosing(_lines(plane, streams, id_, path, tail)) as lines:
            async for line in lines:
                yield line
        newest = await _newest(plane, id_)
        if streams.closing.is_set() or newest == path:
            return
        if newest is None:
            if plane.state.fleet.instance(id_) is not None:
                yield f"--- the log of {id_} is not on the disk any more ---\n"
            return
        path, tail = newest, MOST
        yield f"--- {id_} was started again ---\n"


async def _lines(
    plane: ControlPlane, streams: Streams, id_: str, path: Path, tail: int
) -> AsyncGenerator[str, None]:
    """Lines of one log, until it is quiet and the instance has another one or is gone."""
    async with aclosing(until(streams.closing, plane.follow(path, tail), LOOK_S)) as source:
        async for line in source:
            if line is not None:
                yield f"{line}\n"
            elif path != await _newest(plane, id_):
                return


async def _newest(plane: ControlPlane, id_: str) -> Path | None:
    """The log of the instance's newest start; None when the instance has left the fleet."""
    if plane.state.fleet.instance(id_) is None:
        return await asyncio.to_thread(plane.router_log, id_)
    return await asyncio.to_thread(plane.log_path, id_, False)


async def _path(plane: ControlPlane, id_: str, previous: bool) -> Path:
    if plane.state.fleet.instance(id_) is None:
        router_log = await asyncio.to_thread(plane.router_log, id_)
        if router_log is not None:
            return router_log
    one = find(plane, id_)
    path = await asyncio.to_thread(plane.log_path, id_, previous)
    if path is None:
        which = "an earlier start" if previous else "a start"
        hint = "It has not been started (again) yet."
        if one.phase in ALIVE and not previous:
            hint = "It runs: its log was removed from the disk. The next start has one again."
        raise NotFoundError("no_log", f"{id_} has no log of {which}.", hint)
    return path
