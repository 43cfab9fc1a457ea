"""The router in the browser: how instances are chosen, what it holds back from whom, its processes.

A setting is switched like everything else: by way of a plan.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.contract.router import MEANINGS, RouterView
from pdctl.domain.live import ADMISSIONS
from pdctl.web.shell import Shell


class Router:
    """Handlers of the router's page."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The page, and the part of it that stays new."""
        return [Route("/router", self.page), Route("/ui/router", self.fragment)]

    async def page(self, request: Request) -> Response:
        """Settings, circuit breakers, workers."""
        client = self._shell.client(request)
        found, view = await asyncio.gather(_found(client), client.router())
        settings = [(name, _shown(view, name), said) for name, said in MEANINGS.items()]
        return self._shell.page(
            request, "router.html", section="router", settings=settings,
            choices=_choices(view), **found,
        )  # fmt: skip

    async def fragment(self, request: Request) -> Response:
        """What it sends to whom now."""
        found = await _found(self._shell.client(request))
        return self._shell.fragment("fragments/router.html", now=found["fleet"].at, **found)


async def _found(client: AdminClient) -> dict[str, Any]:
    fleet = await client.fleet(pairs=False)
    return {"fleet": fleet, "closed": [one for one in fleet.instances if one.circuit]}


def _shown(view: RouterView, name: str) -> str:
    return str(getattr(view, name)) or "none"


def _choices(view: RouterView) -> dict[str, tuple[str, ...]]:
    """Settings that have a few values only."""
    policies = tuple(view.policies)
    return {"prefill_policy": policies, "decode_policy": policies, "admission": ADMISSIONS}
