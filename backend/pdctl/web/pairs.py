"""The pair matrix in the browser: prefill by decode, each pair's state in words, and why."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.web import paging
from pdctl.web.overview import grid, window
from pdctl.web.shell import Shell


class Pairs:
    """Handlers of the matrix."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The matrix, as a page and as the piece of it that stays new."""
        return [Route("/pairs", self.page), Route("/ui/pairs", self.fragment)]

    async def page(self, request: Request) -> Response:
        """The matrix, and the pair that the URL names."""
        found = await _found(self._shell.client(request), request)
        return self._shell.page(request, "pairs.html", section="pairs", **found)

    async def fragment(self, request: Request) -> Response:
        """The same part of the matrix as it is now."""
        found = await _found(self._shell.client(request), request)
        return self._shell.fragment("fragments/matrix.html", **found, now=found["fleet"].at)


async def _found(client: AdminClient, request: Request) -> dict[str, Any]:
    query = request.query_params
    fleet = await client.fleet()
    whole = grid(fleet.pairs)
    chosen = whole.cells.get((query.get("prefill", ""), query.get("decode", "")))
    row, column = (paging.number(query.get(name)) or 0 for name in ("row", "column"))
    part = window(whole, row, column)
    return {"fleet": fleet, "whole": whole, "part": part, "chosen": chosen}
