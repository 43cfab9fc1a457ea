"""One client request, read and checked, with all that its legs need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.upstream import Upstream
from pdctl.routing.facts import RequestFacts


@dataclass(slots=True)
class Exchange:
    """What the client sent. The parsed body is shared by all legs and never changed."""

    request: web.BaseRequest
    id: str
    client: str
    """Name of its API key, else its address: who takes turns when requests wait."""
    facts: RequestFacts
    method: str
    path: str
    """Path and query as the client encoded them."""
    headers: CIMultiDict[str]
    """For the engine."""
    raw: bytes
    """The body as it came: what goes to an instance that serves it whole."""
    body: dict[str, Any] | None
    """The body parsed, on the endpoints that PD knows; None elsewhere."""


@dataclass(slots=True)
class Services:
    """What every request of one data plane shares."""

    dispatcher: Dispatcher
    upstream: Upstream
    now: Callable[[], float]
    """Wall time, UTC seconds."""
    monotonic: Callable[[], float]
    stopping: bool = False
    """Open requests are being cut because the router stops."""
