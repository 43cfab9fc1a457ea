"""/metrics: Prometheus text and OpenMetrics (the client library negotiates)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fastapi import APIRouter, Request
from prometheus_client.core import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import Response

from pdctl.api.context import Plane
from pdctl.api.exposition import engines, fleet, kv_events, latency, processes, requests, verdicts
from pdctl.control.plane import ControlPlane

router = APIRouter(tags=["health"])


@router.get("/metrics", operation_id="getMetrics", response_class=Response)
async def metrics(request: Request, plane: Plane) -> Response:
    """Prometheus text, or OpenMetrics when the Accept header asks for it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Read(families(plane)))
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    # Of hundreds of instances the page is long, and the feed must not wait for its text.
    text = await asyncio.to_thread(encode, registry)
    return Response(text, media_type=content_type)


def families(plane: ControlPlane) -> list[Metric]:
    """Every family as it is now."""
    parts = (fleet, requests, kv_events, verdicts, engines, processes, latency)
    return [family for part in parts for family in part.families(plane)]


class _Read(Collector):
    """Families that were read before."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        """Every one of them."""
        return self._found
