"""Changes of the fleet in the browser: asked about as a plan, applied by its id.

A plan is a rehearsal: making one changes nothing, so a page may do it when it is read. Pages of
other sites may not have it made.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pdctl.contract.asks import Ask
from pdctl.contract.plans import ChangeBody
from pdctl.web import change
from pdctl.web.shell import Shell


class Changes:
    """Handlers of plans."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The question as a page and as a fragment for a dialog, and its answer."""
        return [
            Route("/change", self.ask),
            Route("/ui/change", self.ask),
            Route("/plans/{id}/apply", self.apply, methods=["POST"]),
        ]

    async def ask(self, request: Request) -> Response:
        """What the change named in the URL would do."""
        self._shell.only_ours(request)
        asked = _asked(request)
        client = self._shell.client(request)
        fleet, plan = await asyncio.gather(
            client.fleet(pairs=False), client.plan(asked.change or ChangeBody())
        )
        return self._shell.plan_page(request, asked, plan, fleet=fleet, back=self._shell.url("/"))

    async def apply(self, request: Request) -> Response:
        """Do what the plan shows."""
        await self._shell.posted(request)
        await self._shell.client(request).apply(request.path_params["id"])
        return RedirectResponse(self._shell.url("/", done="applied"), 303)


def _asked(request: Request) -> Ask:
    try:
        asked = change.asked(request.query_params)
    except ValueError:
        raise HTTPException(400, "That is no change of this fleet.") from None
    if asked is None:
        raise HTTPException(404)
    return asked
