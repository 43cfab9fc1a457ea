"""Every finished request that matches, as lines of JSON: no page, no limit, little memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from starlette.responses import StreamingResponse

from pdctl.api.records import kv_bytes_per_token, request_view
from pdctl.api.views import simulated
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import InternalError
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.request_query import RequestQuery

PAGE = 500
Find = Callable[[ControlPlane, RequestQuery], Awaitable[tuple[list[RequestRecord], str]]]


async def export(plane: ControlPlane, query: RequestQuery, find: Find) -> StreamingResponse:
    """The answer; it breaks off when the store fails half-way, for half a list looks whole."""
    query = replace(query, limit=PAGE)
    first = await _page(plane, query, find)
    headers = {"Content-Disposition": 'attachment; filename="pdctl-requests.jsonl"'}
    lines = _lines(plane, query, find, first)
    return StreamingResponse(lines, media_type="application/jsonl", headers=headers)


async def _lines(
    plane: ControlPlane, query: RequestQuery, find: Find, page: list[RequestRecord]
) -> AsyncIterator[bytes]:
    per_token, made_up = kv_bytes_per_token(plane.state.fleet), simulated(plane)
    while page:
        for record in page:
            yield request_view(record, per_token, simulated=made_up).model_dump_json().encode()
            yield b"\n"
        page = await _page(plane, replace(query, before=page[-1].id), find)


async def _page(plane: ControlPlane, query: RequestQuery, find: Find) -> list[RequestRecord]:
    found, note = await find(plane, query)
    if note:
        raise InternalError("store_away", note, "Export again when `pdctl status` says it is back.")
    return found
