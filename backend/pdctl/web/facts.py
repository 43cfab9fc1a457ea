"""What happened, in the browser: every stored fact in words, by instance and kind, page by page."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.domain.events import DURABLE
from pdctl.web import paging
from pdctl.web.shell import Shell
from pdctl.web.told import tell

PAGE = 100
SHORT = 12


class Facts:
    """Handlers of events."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The page, the part of it that stays new, and the short list of the fleet page."""
        return [
            Route("/events", self.page),
            Route("/ui/events/page", self.fragment),
            Route("/ui/events", self.short_fragment),
        ]

    async def page(self, request: Request) -> Response:
        """Facts under the filters of the URL, newest first."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _found(client, request))
        return self._shell.page(request, "events.html", section="events", fleet=fleet, **found)

    async def fragment(self, request: Request) -> Response:
        """The newest facts under the same filters."""
        found = await _found(self._shell.client(request), request)
        return self._shell.fragment("fragments/facts.html", **found)

    async def short_fragment(self, request: Request) -> Response:
        """The last facts."""
        return self._shell.fragment(
            "fragments/events.html", **await short(self._shell.client(request))
        )


async def short(client: AdminClient) -> dict[str, Any]:
    """The last facts, for a small panel."""
    page = await client.events_page(limit=2 * SHORT)
    told = [tell(event) for event in page.items if not event.echoed]
    return {"events": told[: -SHORT - 1 : -1]}


async def _found(client: AdminClient, request: Request) -> dict[str, Any]:
    query = request.query_params
    kind = query.get("kind", "")
    kind = kind if kind in {one.value for one in DURABLE} else ""
    about = query.get("about", "").strip()[:200]
    before = paging.number(query.get("before"))
    found = await client.events_page(
        limit=PAGE, before=before, about=about or None, topics=[kind] if kind else ()
    )
    page = paging.whole_pages(
        found.items[::-1], str(before or ""), PAGE, lambda event: str(event.seq)
    )
    told = [tell(event) for event in page.items if kind or not event.echoed]
    return {"facts": told, "page": page, "kind": kind, "about": about}
