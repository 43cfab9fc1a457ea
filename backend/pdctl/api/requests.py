"""/requests: finished requests, the newest from memory and the older ones from the store."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter
from starlette.responses import JSONResponse, Response

from pdctl.api.context import Plane
from pdctl.api.fields import Fields, trimmed
from pdctl.api.records import kv_bytes_per_token, request_view
from pdctl.api.requests_export import export
from pdctl.api.views import simulated
from pdctl.contract.resources import RequestPage, RequestPart, RequestView
from pdctl.control.plane import ControlPlane
from pdctl.control.request_log import arrange
from pdctl.domain.errors import NotFoundError
from pdctl.domain.handoff import Outcome, Path, RequestRecord
from pdctl.domain.request_query import RequestQuery

log = logging.getLogger(__name__)
router = APIRouter(prefix="/requests", tags=["requests"])
Limit = Annotated[int, Query(ge=1, le=1000, description="Requests in the answer.")]
Id = Annotated[str, PathParameter(alias="id", description="As sent or given: X-Request-Id.")]
Before = Annotated[
    str | None, Query(description="`next` of the page before: go on with older (faster) ones.")
]
Pair = Annotated[
    str | None,
    Query(pattern=".>.", description='Only those handed over on it: "prefill-0>decode-1".'),
]


DESCRIBED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}
}


@router.get(
    "", operation_id="listRequests", response_model=RequestPage | RequestPart, responses=DESCRIBED
)
async def list_requests(
    plane: Plane,
    *,
    limit: Limit = 50,
    before: Before = None,
    path: Path | None = None,
    outcome: Outcome | None = None,
    instance: Annotated[str | None, Query(description="Only those it took part in.")] = None,
    key: Annotated[str | None, Query(description="Only those of this API key (its name).")] = None,
    model: Annotated[str | None, Query(description="Only those that asked for this model.")] = None,
    pair: Pair = None,
    slo_missed: Annotated[
        str | None, Query(description='Only those that missed this objective; "any": one of them.')
    ] = None,
    begins: Annotated[str | None, Query(description="Only those whose id begins so.")] = None,
    slowest: Annotated[bool, Query(description="Slowest first instead of newest first.")] = False,
    format_: Annotated[
        Literal["json", "jsonl"],
        Query(alias="format", description="jsonl: stream all that match, without a limit."),
    ] = "json",
    fields: Fields = None,
) -> RequestPage | Response:
    """Finished requests in the order of finishing, newest first."""
    query = RequestQuery(
        limit + 1, before, path, outcome, instance, slowest, key, model, _ends(pair), slo_missed,
        begins,
    )  # fmt: skip
    if format_ == "jsonl":
        return await export(plane, query, _find)
    found, note = await _turned(plane, query)
    shown = found[:limit]
    per_token, made_up = kv_bytes_per_token(plane.state.fleet), simulated(plane)
    page = RequestPage(
        simulated=made_up,
        items=[request_view(record, per_token, simulated=made_up) for record in shown],
        next=shown[-1].id if len(found) > limit else None,
        note=note,
    )
    return page if fields is None else _part(page, fields)


@router.get("/{id:path}", operation_id="getRequest")
async def get_request(id_: Id, plane: Plane) -> RequestView:
    """One request; when a client used an id twice, the last one."""
    record = plane.requests.get(id_) or await plane.store.request(id_)
    if record is None:
        raise NotFoundError(
            "no_such_request",
            f"There is no finished request {id_!r}.",
            "It may still be open, or its record has been pruned.",
        )
    per_token = kv_bytes_per_token(plane.state.fleet)
    view = request_view(record, per_token, simulated=simulated(plane))
    return view.model_copy(update={"kv": plane.truth.of(record.id) or ""})


def _part(page: RequestPage, fields: str) -> Response:
    """The page with these fields of each request only."""
    some = trimmed(page.items, RequestView, fields)
    return JSONResponse(page.model_dump(mode="json", exclude={"items"}) | {"items": some})


def _ends(pair: str | None) -> tuple[str, str] | None:
    """Both ends of "prefill-0>decode-1"."""
    if pair is None:
        return None
    prefill, _, decode = pair.partition(">")
    return (prefill.strip(), decode.strip())


async def _turned(plane: ControlPlane, query: RequestQuery) -> tuple[list[RequestRecord], str]:
    """The same for who turns pages: that `before` is gone is said on the page."""
    try:
        return await _find(plane, query)
    except NotFoundError as gone:
        return [], str(gone)


async def _find(plane: ControlPlane, query: RequestQuery) -> tuple[list[RequestRecord], str]:
    """Memory first; the store when memory is too short. NotFoundError: `before` is gone."""
    fresh = plane.requests.query(query)
    if not query.slowest and len(fresh) >= query.limit:
        return fresh, ""
    held = query.before is None or plane.requests.get(query.before) is not None
    try:
        stored = await _stored(plane, query, held)
    except Exception:
        log.exception("the store did not answer a request query")
        return fresh, "The store does not answer: only requests held in memory are shown."
    if query.before is not None and not held and await plane.store.request(query.before) is None:
        raise NotFoundError(
            "before_gone", f"{query.before!r} is held no more.", "Begin with the newest again."
        )
    seen = {(record.id, record.received_at) for record in fresh}
    older = [record for record in stored if (record.id, record.received_at) not in seen]
    if query.slowest:
        merged = arrange([*fresh, *older], replace(query, before=None))
        return merged[: query.limit], ""
    return (fresh + older)[: query.limit], ""


async def _stored(plane: ControlPlane, query: RequestQuery, held: bool) -> list[RequestRecord]:
    """What the store adds to memory: records older than the ring's oldest."""
    oldest = plane.requests.oldest_of(plane.keeping.wanted)
    if query.slowest or not held or oldest is None:
        return await plane.store.requests(query)
    flushed = await plane.store.request(oldest.id) is not None
    return await plane.store.requests(replace(query, before=oldest.id if flushed else None))
