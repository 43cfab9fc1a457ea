"""The pages and their live fragments: ask the client, pass the views to one template.

Each fragment is rendered from the very file that its page includes, with the same context.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.client.errors import NotFound
from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode
from pdctl.web import latency, reference, waterfall
from pdctl.web.facts import short
from pdctl.web.overview import grid, pool_rows, state_of
from pdctl.web.shell import Shell

PAGE_SIZES = (25, 50, 100, 200)
TAILS = (100, 500, 2000)


class Pages:
    """Handlers of everything that is read."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """Where each page and fragment is."""
        return [
            Route("/", self.fleet),
            Route("/requests", self.requests),
            Route("/requests/{id:path}", self.request),
            Route("/instances", self.instances),
            Route("/instances/{id}", self.instance),
            Route("/logs", self.logs),
            Route("/reference", self.reference),
            Route("/favicon.ico", self.favicon),
            Route("/ui/state", self.state_fragment),
            Route("/ui/fleet", self.fleet_fragment),
            Route("/ui/latency", self.latency_fragment),
            Route("/ui/requests", self.requests_fragment),
            Route("/ui/instances/{id}", self.instance_fragment),
        ]

    async def fleet(self, request: Request) -> Response:
        """The fleet: mode, pools, pairs, latency, the last events."""
        client = self._shell.client(request)
        fleet, views, events = await asyncio.gather(
            _fleet(client), _latency(client, request), short(client)
        )
        return self._shell.page(request, "fleet.html", section="fleet", **fleet, **views, **events)

    async def fleet_fragment(self, request: Request) -> Response:
        """Mode, pools and pairs."""
        return self._shell.fragment(
            "fragments/fleet.html", **await _fleet(self._shell.client(request))
        )

    async def latency_fragment(self, request: Request) -> Response:
        """Percentiles and bars over one window."""
        views = await _latency(self._shell.client(request), request)
        return self._shell.fragment("fragments/latency.html", **views)

    async def state_fragment(self, request: Request) -> Response:
        """The word in the top bar, with what title and icon are made of."""
        fleet = await self._shell.client(request).fleet(pairs=False)
        return self._shell.fragment("fragments/state.html", fleet=fleet, state=state_of(fleet))

    async def requests(self, request: Request) -> Response:
        """The request table."""
        client = self._shell.client(request)
        wanted = request.query_params.get("id", "").strip()
        if wanted:
            return RedirectResponse(self._shell.url("/requests", wanted), 303)
        fleet, page = await asyncio.gather(client.fleet(pairs=False), _requests(client, request))
        return self._shell.page(request, "requests.html", section="requests", fleet=fleet, **page)

    async def requests_fragment(self, request: Request) -> Response:
        """The rows of the request table under the same filters."""
        page = await _requests(self._shell.client(request), request)
        return self._shell.fragment("fragments/requests.html", **page)

    async def request(self, request: Request) -> Response:
        """One request with its waterfall."""
        client = self._shell.client(request)
        fleet, one = await asyncio.gather(
            client.fleet(pairs=False), client.request(request.path_params["id"])
        )
        return self._shell.page(
            request, "request.html", section="requests", fleet=fleet,
            one=one, chart=waterfall.chart(one),
        )  # fmt: skip

    async def instances(self, request: Request) -> Response:
        """The list of instances is the fleet page."""
        del request
        return RedirectResponse(self._shell.url("/"), 303)

    async def instance(self, request: Request) -> Response:
        """One instance: state, numbers, how it failed, how it is launched, its last lines."""
        client, id_ = self._shell.client(request), request.path_params["id"]
        fleet, parts, lines = await asyncio.gather(
            client.fleet(pairs=False), _instance(client, id_), _log(client, id_, 60, previous=False)
        )
        command = await _or_none(client.command(id_))
        return self._shell.page(
            request, "instance.html", section="fleet", fleet=fleet, command=command,
            lines=lines, **parts,
        )  # fmt: skip

    async def instance_fragment(self, request: Request) -> Response:
        """State and numbers of one instance."""
        client, id_ = self._shell.client(request), request.path_params["id"]
        fleet, parts = await asyncio.gather(client.fleet(pairs=False), _instance(client, id_))
        return self._shell.fragment("fragments/instance.html", now=fleet.at, **parts)

    async def logs(self, request: Request) -> Response:
        """The log of one instance; a script follows it, without one it is its tail."""
        client, query = self._shell.client(request), request.query_params
        fleet = await client.fleet(pairs=False)
        ids = [one.id for one in fleet.instances]
        chosen = query.get("instance") or (ids[0] if ids else "")
        previous = query.get("previous") in ("1", "true", "on")
        tail = _among(query.get("tail"), TAILS, TAILS[1])
        lines = await _log(client, chosen, tail, previous=previous) if chosen else None
        return self._shell.page(
            request, "logs.html", section="logs", fleet=fleet, ids=ids, chosen=chosen,
            previous=previous, tail=tail, tails=TAILS, lines=lines,
        )  # fmt: skip

    async def reference(self, request: Request) -> Response:
        """The admin API, for people who script it."""
        client = self._shell.client(request)
        fleet, document = await asyncio.gather(client.fleet(pairs=False), client.openapi())
        return self._shell.page(
            request, "reference.html", section="reference", fleet=fleet,
            sections=reference.sections(document), info=document["info"],
        )  # fmt: skip

    async def favicon(self, request: Request) -> Response:
        """What browsers ask for beside a page without an icon, such as /docs."""
        del request
        return RedirectResponse(self._shell.url("/static/icon-idle.svg"), 308)


async def _fleet(client: AdminClient) -> dict[str, Any]:
    fleet, mode, done = await asyncio.gather(client.fleet(), client.mode(), client.operations())
    return {
        "underway": [one for one in done.items if one.state == "running"],
        "fleet": fleet,
        "now": fleet.at,
        "mode": mode,
        "other": Mode.CHUNKED if fleet.mode is Mode.PD else Mode.PD,
        "pools": pool_rows(fleet),
        "grid": grid(fleet.pairs),
    }


async def _latency(client: AdminClient, request: Request) -> dict[str, Any]:
    window = latency.window_of(request.query_params.get("window"))
    page = await client.histograms(list(latency.METRICS), list(latency.GROUPS), window)
    return {"rows": latency.rows(page.items), "window": window, "windows": latency.WINDOWS}


async def _requests(client: AdminClient, request: Request) -> dict[str, Any]:
    query = request.query_params
    path = _value(query.get("path"), [one.value for one in Path])
    outcome = _value(query.get("outcome"), [one.value for one in Outcome])
    instance = query.get("instance") or None
    slowest = query.get("slowest") in ("1", "true", "on")
    limit = _among(query.get("limit"), PAGE_SIZES, PAGE_SIZES[1])
    before = query.get("before") or None
    page = await client.requests(
        limit, before, path=path, outcome=outcome, instance=instance, slowest=slowest
    )
    filters = {"path": path, "outcome": outcome, "instance": instance, "slowest": slowest}
    longest = max((one.e2e_ms or 0.0 for one in page.items), default=0.0)
    return {
        "page": page, "filters": filters, "limit": limit, "before": before,
        "sizes": PAGE_SIZES, "longest": longest,
        "filtered": any(filters.values()),
    }  # fmt: skip


async def _instance(client: AdminClient, id_: str) -> dict[str, Any]:
    return {"instance": await client.instance(id_)}


async def _log(client: AdminClient, id_: str, tail: int, *, previous: bool) -> list[str] | None:
    text = await _or_none(client.logs(id_, tail, previous))
    return None if text is None else text.splitlines()


async def _or_none(call: Any) -> Any:
    try:
        return await call
    except NotFound:
        return None


def _value(text: str | None, known: list[str]) -> str | None:
    return text if text in known else None


def _among(text: str | None, known: tuple[int, ...], default: int) -> int:
    return next((number for number in known if str(number) == text), default)
