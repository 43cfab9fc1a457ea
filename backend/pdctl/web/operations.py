"""Operations in the browser: applied plans, each with its steps, and the way to take one back."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.contract import asks
from pdctl.contract.plans import OperationView, PlanView
from pdctl.web import change
from pdctl.web.paging import newest_first
from pdctl.web.shell import Shell

PAGE = 25


class Operations:
    """Handlers of operations."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The list, one of them, and the question before one is cancelled."""
        return [
            Route("/operations", self.list),
            Route("/operations/{id}", self.one),
            Route("/operations/{id}/cancel", self.ask),
            Route("/operations/{id}/cancel", self.cancel, methods=["POST"]),
            Route("/ui/operations", self.list_fragment),
            Route("/ui/operations/{id}", self.one_fragment),
            Route("/ui/operations/{id}/cancel", self.ask),
        ]

    async def list(self, request: Request) -> Response:
        """Those under way, then the past ones, page by page."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _listed(client, request))
        return self._shell.page(
            request, "operations.html", section="operations", fleet=fleet, **found
        )

    async def list_fragment(self, request: Request) -> Response:
        """The same list, for a page that is open."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _listed(client, request))
        return self._shell.fragment("fragments/operations.html", now=fleet.at, **found)

    async def one(self, request: Request) -> Response:
        """One operation with each step: seen to happen, next, or to come."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _one(client, request))
        return self._shell.page(
            request, "operation.html", section="operations", fleet=fleet, **found
        )

    async def one_fragment(self, request: Request) -> Response:
        """How far it is."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _one(client, request))
        return self._shell.fragment("fragments/operation.html", now=fleet.at, **found)

    async def ask(self, request: Request) -> Response:
        """What cancelling it would do: the way back to the fleet that was desired before."""
        self._shell.only_ours(request)
        client, id_ = self._shell.client(request), request.path_params["id"]
        one = await client.operation(id_)
        fleet, plan = await asyncio.gather(client.fleet(pairs=False), _way_back(client, one))
        return self._shell.plan_page(
            request, asks.cancel(id_), plan, fleet=fleet, back=self._shell.url("/operations", id_),
            section="operations", act=f"/operations/{id_}/cancel", button="Cancel the operation",
        )  # fmt: skip

    async def cancel(self, request: Request) -> Response:
        """Take it back."""
        await self._shell.posted(request)
        id_ = request.path_params["id"]
        await self._shell.client(request).cancel(id_)
        return RedirectResponse(self._shell.url("/operations", id_, done="cancelled"), 303)


async def _listed(client: AdminClient, request: Request) -> dict[str, Any]:
    every = (await client.operations()).items
    past = [one for one in every if one.state != "running"]
    page = newest_first(past, request.query_params.get("before"), PAGE, lambda one: one.id)
    running = [] if page.before else [one for one in every if one.state == "running"]
    return {"running": running, "page": page}


async def _one(client: AdminClient, request: Request) -> dict[str, Any]:
    one = await client.operation(request.path_params["id"])
    return {"one": one, "steps": change.followed(one)}


async def _way_back(client: AdminClient, one: OperationView) -> PlanView | None:
    """A rehearsal of it; None when the fleet of before is not kept or cannot be planned now."""
    try:
        return await client.plan_undo(one.revision - 1) if one.revision > 1 else None
    except ClientError:
        return None
