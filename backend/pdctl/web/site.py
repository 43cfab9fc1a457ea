"""Puts the web face together: routes, static files, headers and error pages in one ASGI app."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.web.assets import STATIC
from pdctl.web.audit import Audit
from pdctl.web.changes import Changes
from pdctl.web.facts import Facts
from pdctl.web.forms import Forms
from pdctl.web.history import History
from pdctl.web.operations import Operations
from pdctl.web.pages import Pages
from pdctl.web.pairs import Pairs
from pdctl.web.past import PastPage
from pdctl.web.router import Router
from pdctl.web.security import SecureHeaders
from pdctl.web.shell import Shell
from pdctl.web.signals import Signals
from pdctl.web.trends import Trends

PARTS = (
    Pages, Forms, Changes, Operations, History, Audit, Facts, Pairs, Signals, Router, Trends,
    PastPage,
)  # fmt: skip


class Static(StaticFiles):
    """Static files: kept for a year when asked for by version, asked about again otherwise."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, with how long it may be kept."""
        response = await super().get_response(path, scope)
        versioned = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if versioned else "no-cache"
        )
        return response


def create_web(client: AdminClient, *, root_path: str = "") -> Starlette:
    """The browser console over `client`, to be mounted at "/" after the admin API's own routes.

    `root_path` is the prefix that a reverse proxy strips; every link starts with it.
    """
    shell = Shell(client, root_path.rstrip("/"))
    return Starlette(
        routes=[
            *(route for part in PARTS for route in part(shell).routes()),
            Mount("/static", Static(directory=STATIC), name="static"),
        ],
        middleware=[Middleware(SecureHeaders)],
        exception_handlers={
            ClientError: shell.on_client_error,
            HTTPException: shell.on_http_error,
            Exception: shell.on_crash,
        },
    )
