"""Signals in the browser: what is wrong, which knob to turn, and the verbs on it."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Failed
from pdctl.contract import asks
from pdctl.contract.signals import SignalView, SilenceBody
from pdctl.web.shell import Shell
from pdctl.web.verbs import Confirm, Entry

PAGE = 25
SPANS = (("3600", "1 hour"), ("14400", "4 hours"), ("86400", "1 day"), ("604800", "1 week"))
NOTE = Entry("note", "Note (others see it)")


class Signals:
    """Handlers of signals and silences."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The list, the history, and each verb with the question before it."""
        verbs = (
            ("ack", self.ask_ack, self.ack), ("silence", self.ask_silence, self.silence),
            ("unsilence", self.ask_unsilence, self.unsilence),
        )  # fmt: skip
        return [
            Route("/signals", self.list),
            Route("/signals/history", self.history),
            Route("/ui/signals", self.fragment),
            *(Route(f"/signals/{name}", ask) for name, ask, _ in verbs),
            *(Route(f"/ui/signals/{name}", ask) for name, ask, _ in verbs),
            *(Route(f"/signals/{name}", act, methods=["POST"]) for name, _, act in verbs),
        ]

    async def list(self, request: Request) -> Response:
        """What fires, what is pending, what is kept quiet, and what is watched."""
        client = self._shell.client(request)
        fleet, page = await asyncio.gather(client.fleet(pairs=False), client.signals())
        return self._shell.page(request, "signals.html", section="signals", fleet=fleet, page=page)

    async def fragment(self, request: Request) -> Response:
        """The same, for a page that is open."""
        page = await self._shell.client(request).signals()
        return self._shell.fragment("fragments/signals.html", page=page, now=page.at)

    async def history(self, request: Request) -> Response:
        """Signals that fired, newest first, page by page."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _past(client, request))
        return self._shell.page(
            request, "signal_history.html", section="signals", fleet=fleet, **found
        )

    async def ask_ack(self, request: Request) -> Response:
        """Take this one up?"""
        client, id_ = self._shell.client(request), request.query_params.get("id", "")
        fleet, one = await asyncio.gather(client.fleet(pairs=False), _one(client, id_))
        return self._ask(request, take_up(one), fleet)

    async def ack(self, request: Request) -> Response:
        """Take it up."""
        form = await self._shell.posted(request)
        await self._shell.client(request).ack_signal(form.get("id", ""), form.get("note", "")[:500])
        return self._done("taken_up")

    async def ask_silence(self, request: Request) -> Response:
        """Keep these quiet?"""
        query = request.query_params
        fleet = await self._shell.client(request).fleet(pairs=False)
        asked = keep_quiet(query.get("rule", "*"), query.get("subject", "*"))
        return self._ask(request, asked, fleet)

    async def silence(self, request: Request) -> Response:
        """Keep them quiet."""
        form = await self._shell.posted(request)
        span = form.get("for_s", "")
        if span not in dict(SPANS):
            raise HTTPException(400, "Choose for how long.")
        wanted = SilenceBody(
            rule=form.get("rule") or "*", subject=form.get("subject") or "*", for_s=float(span),
            note=form.get("note", "")[:500],
        )  # fmt: skip
        await self._shell.client(request).silence(wanted)
        return self._done("silenced")

    async def ask_unsilence(self, request: Request) -> Response:
        """End this silence?"""
        fleet = await self._shell.client(request).fleet(pairs=False)
        return self._ask(request, hear_again(request.query_params.get("id", "")), fleet)

    async def unsilence(self, request: Request) -> Response:
        """End it."""
        form = await self._shell.posted(request)
        await self._shell.client(request).unsilence(form.get("id", ""))
        return self._done("unsilenced")

    def _ask(self, request: Request, confirm: Confirm, fleet: Any) -> Response:
        piece = request.url.path.startswith("/ui/")
        template = "fragments/confirm.html" if piece else "confirm.html"
        back = self._shell.url("/signals")
        return self._shell.page(
            request, template, section="signals", fleet=fleet, confirm=confirm, back=back
        )

    def _done(self, code: str) -> Response:
        return RedirectResponse(self._shell.url("/signals", done=code), 303)


async def _past(client: AdminClient, request: Request) -> dict[str, Any]:
    before = request.query_params.get("before") or None
    try:
        page = await client.signal_history(limit=PAGE, before=before)
    except Failed as error:
        return {"items": [], "older": None, "before": before, "note": str(error)}
    return {"items": page.items, "older": page.next, "before": before, "note": ""}


async def _one(client: AdminClient, id_: str) -> SignalView:
    found = next((one for one in (await client.signals()).items if one.id == id_), None)
    if found is None:
        raise HTTPException(404, "It does not fire any more.")
    return found


def take_up(one: SignalView) -> Confirm:
    """The question before a signal is taken up."""
    ask = asks.ack(one.id)
    return Confirm(
        title=ask.title, button="Take it up",
        effects=(
            "It is no longer counted, until it fires anew.",
            "Others see that you have it, and your note.",
        ),
        risks=() if one.state == "firing" else ("It does not fire now.",),
        action="/signals/ack", fields={"id": one.id}, entries=(NOTE,),
        ask=ask,
    )  # fmt: skip


def keep_quiet(rule: str, subject: str) -> Confirm:
    """The question before signals are kept quiet."""
    ask = asks.silence(rule, subject)
    return Confirm(
        title=ask.title, button="Silence",
        effects=(
            "What matches is neither counted nor sent to the webhook.",
            "It is watched and shown all the same; the silence ends by itself.",
        ),
        action="/signals/silence", fields={"rule": rule, "subject": subject},
        entries=(Entry("for_s", "For how long", choices=SPANS), NOTE),
        ask=ask,
    )  # fmt: skip


def hear_again(id_: str) -> Confirm:
    """The question before a silence is ended."""
    ask = asks.unsilence(id_)
    return Confirm(
        title=ask.title, button="End it",
        effects=("What it kept quiet is counted and sent again, if it still fires.",),
        action="/signals/unsilence", fields={"id": id_}, ask=ask,
    )  # fmt: skip
