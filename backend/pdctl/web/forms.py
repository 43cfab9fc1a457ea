"""What a browser may change: each verb asked about first, then posted, then shown (303).

A post counts only when it comes from our own page in this browser (`security.genuine`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pdctl.client.errors import ClientError, Unreachable
from pdctl.domain.topology import Mode
from pdctl.web import security, verbs
from pdctl.web.shell import Shell

POST = ["POST"]


class Forms:
    """Handlers of everything that is asked for or changed."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """Where each question and each verb is; questions also as fragments for a dialog."""
        return [
            Route("/mode", self.ask_mode),
            Route("/mode", self.set_mode, methods=POST),
            Route("/ui/mode", self.ask_mode),
            Route("/instances/{id}/clear", self.ask_clear),
            Route("/instances/{id}/clear", self.clear, methods=POST),
            Route("/ui/instances/{id}/clear", self.ask_clear),
            Route("/sign-in", self.ask_token),
            Route("/sign-in", self.sign_in, methods=POST),
            Route("/sign-out", self.sign_out, methods=POST),
        ]

    async def ask_mode(self, request: Request) -> Response:
        """Switch to the mode named in the URL?"""
        client, to = self._shell.client(request), _mode(request.query_params.get("to"))
        fleet, mode = await asyncio.gather(client.fleet(), client.mode())
        return self._ask(request, verbs.switch(fleet, mode, to), fleet, back=self._shell.url("/"))

    async def set_mode(self, request: Request) -> Response:
        """Switch the mode."""
        form = await self._shell.posted(request)
        mode, seen = _mode(form.get("to")), str(form.get("revision", ""))
        revision = int(seen) if seen.isdecimal() else None
        await self._shell.client(request).set_mode(mode, revision=revision)
        return self._see("/", done=mode.value)

    async def ask_clear(self, request: Request) -> Response:
        """Forget the failures of this instance, and start it again?"""
        client, id_ = self._shell.client(request), request.path_params["id"]
        fleet, instance = await asyncio.gather(client.fleet(), client.instance(id_))
        back = self._shell.url("/instances", id_)
        return self._ask(request, verbs.clear(instance), fleet, back=back)

    async def clear(self, request: Request) -> Response:
        """Forget the failures of this instance, and start it again."""
        await self._shell.posted(request)
        id_ = request.path_params["id"]
        await self._shell.client(request).clear(id_)
        return self._see("/instances", id_, done="clear")

    async def ask_token(self, request: Request) -> Response:
        """The sign-in page."""
        return self._sign_in_page(request, request.query_params.get("next", "/"))

    async def sign_in(self, request: Request) -> Response:
        """Keep a session, or the token that was given, in this browser when the API takes it."""
        form = await self._shell.posted(request)
        target = security.local_path(form.get("next", "/"))
        try:
            token, who = await self._session(request, form)
        except Unreachable:
            raise
        except ClientError as error:
            wrong = str(error) if form.get("user") else "That token was not accepted."
            return self._sign_in_page(request, target, wrong=wrong, status=error.problem.status)
        response = RedirectResponse(target, 303)
        if token:
            security.set_cookie(request, response, security.TOKEN_COOKIE, token)
            security.set_cookie(request, response, security.WHO_COOKIE, who)
        return response

    async def _session(self, request: Request, form: dict[str, str]) -> tuple[str, str]:
        """What to show from now on, and as whom."""
        user, token = form.get("user", "").strip(), form.get("token", "").strip()
        client = self._shell.client(request)
        if user:
            peer = request.client.host if request.client else ""
            begun = await client.acting_as(None).sign_in(user, form.get("password", ""), peer=peer)
            return begun.token, f"{begun.name}:{begun.role}"
        known = await client.acting_as(token or None).who_am_i()
        return token, f"{known.name}:{known.role}"

    async def sign_out(self, request: Request) -> Response:
        """End the session of this browser, and forget its token."""
        await self._shell.posted(request)
        with contextlib.suppress(ClientError):  # it has ended already
            await self._shell.client(request).sign_out()
        response = self._see("/sign-in")
        for name in (security.TOKEN_COOKIE, security.WHO_COOKIE):
            response.delete_cookie(name, httponly=True, samesite="strict")
        return response

    def _ask(self, request: Request, confirm: verbs.Confirm, fleet: Any, *, back: str) -> Response:
        piece = request.url.path.startswith("/ui/")
        template = "fragments/confirm.html" if piece else "confirm.html"
        return self._shell.page(request, template, fleet=fleet, confirm=confirm, back=back)

    def _sign_in_page(
        self, request: Request, target: str, *, wrong: str = "", status: int = 200
    ) -> Response:
        return self._shell.page(
            request, "sign_in.html", fleet=None, status=status, wrong=wrong,
            next=security.local_path(target),
        )  # fmt: skip

    def _see(self, path: str, *parts: str, **query: str) -> RedirectResponse:
        return RedirectResponse(self._shell.url(path, *parts, **query), 303)


def _mode(text: str | None) -> Mode:
    try:
        return Mode(text or "")
    except ValueError:
        raise HTTPException(400, "There is no such mode; known: pd, chunked.") from None
