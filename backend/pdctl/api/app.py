"""Builds the admin API over one control plane; a web face may be mounted into the result.

Outermost first: fallback (no traceback leaves), guard (nobody passes unseen), idempotency, routes.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI

from pdctl import __version__
from pdctl.api import (
    audit,
    bundle,
    compare,
    desired,
    detach,
    docs,
    errors,
    events,
    exposition,
    fleet,
    golden,
    goodput,
    health,
    histograms,
    idempotency,
    instances,
    keys,
    logs,
    marks,
    mode,
    orphans,
    past,
    plans,
    requests,
    revisions,
    router,
    session,
    signals,
    truth,
    unknown,
)
from pdctl.api.context import AccessBook, Streams
from pdctl.api.guard import Guard
from pdctl.api.rates import Rates
from pdctl.contract.problems import PROBLEM_TYPE, Problem
from pdctl.control.plane import ControlPlane

PREFIX = "/api/v1"
TAGS = [
    {"name": "fleet", "description": "Desired beside observed: fleet, pools, pairs."},
    {"name": "instances", "description": "One engine each: state, command, verbs."},
    {"name": "logs", "description": "What an engine wrote."},
    {"name": "mode", "description": "Chunked or P/D, switched without a restart."},
    {"name": "router", "description": "How instances are chosen, switched without a restart."},
    {"name": "plans", "description": "What a change will do; apply it by id; follow it."},
    {"name": "revisions", "description": "Every desired state, what it changed, and the way back."},
    {"name": "audit", "description": "The operations log: who did what, and what came of it."},
    {"name": "orphans", "description": "Engines that no instance owns: end or adopt them."},
    {"name": "requests", "description": "Finished requests and their waterfalls."},
    {"name": "latency", "description": "TTFT, TPOT, ITL, E2E, queue: measured at the router."},
    {"name": "signals", "description": "What is wrong, what it means, which knob to turn."},
    {"name": "events", "description": "Facts, as a stream or a page."},
    {"name": "bundle", "description": "The last hours in one file."},
    {"name": "session", "description": "Who asks: sign in, and out."},
    {"name": "health", "description": "For probes and for Prometheus."},
]


class AdminApi(FastAPI):
    """The app, with what its middleware adds to the description of its writes."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return idempotency.describe(super().openapi())


def create_api(
    plane: ControlPlane,
    *,
    token: str | None,
    access: AccessBook | None = None,
    reading: bool = False,
) -> FastAPI:
    """The admin API. Call `app.state.streams.close()` before the server waits for connections.

    `reading`: there is nothing to change (a bundle), so nobody may.
    """
    app = AdminApi(
        title="pdctl admin API",
        version=__version__,
        description="Operate vLLM prefill/decode disaggregation. Errors are RFC 9457 problems.",
        openapi_tags=TAGS,
        docs_url=None,
        redoc_url=None,
        responses={
            "default": {
                "description": "What went wrong, and what to do next.",
                "model": Problem,
                "content": {PROBLEM_TYPE: {}},
            }
        },
    )
    app.state.plane = plane
    app.state.access = access
    app.state.streams = Streams()
    app.state.rates = Rates()
    _route(app)
    errors.install(app)
    app.add_middleware(idempotency.Idempotency)
    app.add_middleware(Guard, token=token, access=access, reading=reading)
    app.add_middleware(errors.Fallback)
    return app


def _route(app: FastAPI) -> None:
    v1 = APIRouter(prefix=PREFIX)
    for module in (
        fleet, desired, instances, logs, mode, router, plans, revisions, audit, requests,
        histograms, goodput, truth, compare, marks, golden, events, detach, orphans, bundle,
        session, signals, past, keys,
    ):  # fmt: skip
        v1.include_router(module.router)
    app.include_router(v1)
    for module in (health, exposition, docs, unknown):
        app.include_router(module.router)
