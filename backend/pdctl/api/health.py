"""/livez, /readyz: are we alive, can a request be served, and what is missing."""

from __future__ import annotations

import asyncio
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from pdctl.api.context import Plane
from pdctl.api.guard import ANONYMOUS, unauthorised
from pdctl.contract.resources import CheckView, ReadyView
from pdctl.control.plane import ControlPlane
from pdctl.domain import pairing
from pdctl.domain.fleet import Fleet
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode, Role

router = APIRouter(tags=["health"])
PLAIN = {"text/plain": {"schema": {"type": "string"}}}
Verbose = Annotated[
    str | None, Query(description="JSON with every check; `?verbose` alone is enough.")
]
_WHOLE = "Requests are served whole: each on one instance, without a handoff."
SERVING = ("listening", "replace")
CHECK_S = 2.0
"""A check that takes longer has failed."""


@router.head("/livez", include_in_schema=False)
@router.get("/livez", operation_id="livez", response_class=PlainTextResponse)
async def livez() -> str:
    """The event loop turns. Needs no token."""
    return "ok\n"


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    operation_id="readyz",
    response_model=ReadyView,
    responses={
        200: {"content": PLAIN},
        503: {
            "model": ReadyView, "description": "No request can be served now.", "content": PLAIN,
        },
    },
)  # fmt: skip
async def readyz(request: Request, plane: Plane, verbose: Verbose = None) -> Response:
    """200 when a request can be served, else 503; JSON when verbose or asked for by Accept.

    Where a token is set, who has none gets the status alone: a load balancer needs no more.
    """
    details = verbose is not None and verbose.lower() not in ("0", "false", "no", "off")
    details = details or "application/json" in request.headers.get("accept", "")
    unknown = request.scope.get("pdctl.actor") == ANONYMOUS.name
    if unknown and details:
        return unauthorised()
    view = await ready_view(plane)
    status = 200 if view.ready else 503
    if unknown:
        return PlainTextResponse("ok\n" if view.ready else "not ready\n", status)
    if details:
        return JSONResponse(view.model_dump(mode="json"), status)
    failed = [f"{check.name}: {check.detail}" for check in view.checks if not check.ok]
    lines = ["ok", *failed] if view.ready else failed
    return PlainTextResponse("\n".join(lines) + "\n", status)


async def ready_view(plane: ControlPlane) -> ReadyView:
    """Every check, run together. Without history or handoff, requests are served all the same."""
    store, router_ = await asyncio.gather(_store(plane), _router(plane))
    path = servable(plane.state.fleet)
    checks = [store, router_, path, *handoff(plane.state.fleet)]
    return ReadyView(ready=router_.ok and path.ok, checks=checks)


def servable(fleet: Fleet) -> CheckView:
    """Whether any instance takes requests: in PD mode too, one alone serves them whole."""
    ready = sum(one.phase is Phase.READY for one in fleet.instances)
    detail = f"{ready} of {_number(len(fleet.instances), 'instance')} ready"
    return CheckView(name="path", ok=ready > 0, detail=detail, fix=_path_fix(ready > 0))


def handoff(fleet: Fleet) -> list[CheckView]:
    """In PD mode: whether a pair hands over."""
    if fleet.desired.mode is not Mode.PD:
        return []
    ends = [{one.id for one in fleet.ready(role)} for role in (Role.PREFILL, Role.DECODE)]
    proved = [pair for pair in fleet.pairs if pair.state == pairing.OK]
    pairs = sum(pair.prefill in ends[0] and pair.decode in ends[1] for pair in proved)
    number, word = len(fleet.pairs), "hands" if len(fleet.pairs) == 1 else "hand"
    detail = f"{pairs} of {_number(number, 'pair')} {word} over"
    fix = "" if pairs else _WHOLE if any(ends) else "First an instance of each role must be ready."
    return [CheckView(name="handoff", ok=pairs > 0, detail=detail, fix=fix)]


async def _store(plane: ControlPlane) -> CheckView:
    try:
        facts = await asyncio.wait_for(plane.store.check(), CHECK_S)
    except Exception as error:
        why = str(error) or type(error).__name__
        fix = "Requests are still served; new history is lost if pdctl ends now."
        return CheckView(name="store", ok=False, detail=why, fix=fix)
    detail = ", ".join(f"{name} {value}" for name, value in facts.items())
    return CheckView(name="store", ok=True, detail=detail)


async def _router(plane: ControlPlane) -> CheckView:
    if not plane.data_plane_url:
        return CheckView(name="router", ok=False, detail="a bundle has none", fix="Only look.")
    address = urlsplit(plane.data_plane_url)
    workers = plane.router_workers()
    if workers and not any(one.state in SERVING for one in workers):
        states = ", ".join(f"router-{one.slot} is {one.state}" for one in workers)
        fix = "Another takes its place; `pdctl logs router-0` says why it does not."
        return CheckView(name="router", ok=False, detail=states, fix=fix)
    opening = asyncio.open_connection(address.hostname, address.port)
    try:
        _, writer = await asyncio.wait_for(opening, CHECK_S)
    except OSError as error:  # TimeoutError is one
        why = error.strerror or "no answer"
        fix = "The router has stopped; restart pdctl serve."
        return CheckView(name="router", ok=False, detail=f"{address.netloc}: {why}", fix=fix)
    writer.close()
    return CheckView(name="router", ok=True, detail=address.netloc)


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _path_fix(ok: bool) -> str:
    return "" if ok else "`pdctl status` says what each instance is doing."
