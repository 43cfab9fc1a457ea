"""The desired fleet's history in the browser: revisions, what differs, and the way back."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Failed
from pdctl.contract import asks
from pdctl.web import paging
from pdctl.web.shell import Shell

PAGE = 25
SPAN = re.compile(r"(\d{1,10})\.\.(\d{1,10})")


class History:
    """Handlers of revisions."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The list, one revision, two compared, and the question before one is returned to."""
        return [
            Route("/history", self.list),
            Route("/history/{a:int}..{b:int}", self.diff),
            Route("/history/{number:int}", self.revision),
            Route("/history/{number:int}/undo", self.undo),
            Route("/ui/history", self.list_fragment),
            Route("/ui/history/{number:int}/undo", self.undo),
        ]

    async def list(self, request: Request) -> Response:
        """Who wanted what, when and why; newest first."""
        query = request.query_params
        if "a" in query or "b" in query:
            return self._compared(query.get("a", ""), query.get("b", ""))
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _listed(client, request))
        return self._shell.page(request, "history.html", section="history", fleet=fleet, **found)

    async def list_fragment(self, request: Request) -> Response:
        """The newest revisions, for a page that is open."""
        found = await _listed(self._shell.client(request), request)
        return self._shell.fragment("fragments/history.html", **found)

    async def revision(self, request: Request) -> Response:
        """One revision, with every field of its fleet."""
        client, number = self._shell.client(request), request.path_params["number"]
        fleet, one = await asyncio.gather(client.fleet(pairs=False), client.revision(number))
        return self._shell.page(request, "revision.html", section="history", fleet=fleet, one=one)

    async def diff(self, request: Request) -> Response:
        """What differs between two revisions, field by field."""
        client = self._shell.client(request)
        a, b = request.path_params["a"], request.path_params["b"]
        fleet, found = await asyncio.gather(client.fleet(pairs=False), client.diff(a, b))
        return self._shell.page(request, "diff.html", section="history", fleet=fleet, diff=found)

    async def undo(self, request: Request) -> Response:
        """What going back to a revision would do."""
        self._shell.only_ours(request)
        client, number = self._shell.client(request), request.path_params["number"]
        fleet, plan = await asyncio.gather(client.fleet(pairs=False), client.plan_undo(number))
        return self._shell.plan_page(
            request, asks.undo(number), plan, fleet=fleet, back=self._shell.url("/history"),
            section="history",
        )  # fmt: skip

    def _compared(self, a: str, b: str) -> Response:
        if not SPAN.fullmatch(f"{a}..{b}"):
            raise HTTPException(400, "Give two revision numbers to compare.")
        return RedirectResponse(self._shell.url(f"/history/{int(a)}..{int(b)}"), 303)


async def _listed(client: AdminClient, request: Request) -> dict[str, Any]:
    before = paging.number(request.query_params.get("before"))
    try:
        page = await client.revisions(PAGE, before)
    except Failed as error:
        return {"revisions": [], "before": before, "older": None, "note": str(error)}
    return {"revisions": page.items, "before": before, "older": page.next, "note": ""}
