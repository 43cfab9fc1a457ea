"""Latency in the browser: percentiles over time, goodput, whether KV moved, and comparisons."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict, Failed, NotFound
from pdctl.web import chart
from pdctl.web.shell import Shell

COUNTS = ("moved", "cached", "recomputed", "unknown", "stranded", "expired", "failed", "late")


class Trends:
    """Handlers of the charts."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The charts, as a page and as the piece of it that stays new."""
        return [Route("/latency", self.page), Route("/ui/trends", self.fragment)]

    async def page(self, request: Request) -> Response:
        """TTFT, TPOT and ITL over the window that the URL names."""
        client = self._shell.client(request)
        fleet, found, sides = await asyncio.gather(
            client.fleet(pairs=False), _found(client, request), _compared(client, request)
        )
        return self._shell.page(
            request, "latency.html", section="latency", fleet=fleet, **found, **sides
        )

    async def fragment(self, request: Request) -> Response:
        """The same charts as they are now."""
        found = await _found(self._shell.client(request), request)
        return self._shell.fragment("fragments/latencies.html", **found)


async def _found(client: AdminClient, request: Request) -> dict[str, Any]:
    asked = request.query_params.get("window")
    window = next((size for size, _ in chart.WINDOWS if str(size) == asked), chart.WINDOWS[0][0])
    by = "pool" if request.query_params.get("by") == "pool" else "path"
    groups = await _pools(client) if by == "pool" else chart.MODES
    page, goodput, truth = await asyncio.gather(
        client.latency_series((*chart.METRICS, chart.COUNTED), list(groups), window),
        client.goodput(window_s=window),
        client.truth(window),
    )
    every = (truth.fleet, *truth.groups)
    return {
        "charts": chart.charts(page, window, groups), "by": by,
        "window": window, "windows": chart.WINDOWS,
        "goodput": goodput, "truth": truth,
        "judged": [one for one in goodput.items if one.met + one.missed + one.unjudged],
        "moved": [one for one in every if any(getattr(one, name) for name in COUNTS)],
    }  # fmt: skip


async def _pools(client: AdminClient) -> dict[str, str]:
    """The groups of the first pools of the fleet, each with a colour of its own."""
    pools = [f"pool:{one.name}" for one in (await client.fleet(pairs=False)).pools]
    return dict(zip(pools, chart.COLOURS, strict=False)) or chart.MODES


async def _compared(client: AdminClient, request: Request) -> dict[str, Any]:
    """The two sides that the URL names, if it names any; why not, where that cannot be."""
    query = request.query_params
    a, b = query.get("a", "")[:400], query.get("b", "")[:400]
    found: dict[str, Any] = {"a": a, "b": b, "marks": [], "refused": "", "compared": None}
    with suppress(Failed, Conflict):  # the store; or a bundle, which has none
        found["marks"] = (await client.marks()).items
    if a and b:
        try:
            found["compared"] = await client.compare_latency(a, b)
        except (Failed, Conflict, NotFound) as error:
            found["refused"] = str(error)
    return found
