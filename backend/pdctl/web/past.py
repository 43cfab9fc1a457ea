"""The fleet at a past moment: a page with an address of its own, and steps to and fro."""

from __future__ import annotations

from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdctl.client.errors import Failed, NotFound
from pdctl.web.shell import Shell

SPANS = (60, 300, 900, 3600)
STEPS = (
    (-600, "10 min earlier"), (-60, "1 min earlier"), (-10, "10 s earlier"),
    (10, "10 s later"), (60, "1 min later"), (600, "10 min later"),
)  # fmt: skip


class PastPage:
    """One page."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """Where it is."""
        return [Route("/past", self.past)]

    async def past(self, request: Request) -> Response:
        """The moment that the address names; without one, the form."""
        client, query = self._shell.client(request), request.query_params
        at = query.get("at", "").strip()[:64]
        around = next((one for one in SPANS if str(one) == query.get("around")), SPANS[1])
        fleet, past, problem = await client.fleet(pairs=False), None, ""
        if at:
            try:
                past = await client.past(at, around)
            except (Failed, NotFound) as error:
                problem = str(error)
        steps = steps_from(past.at, past.now) if past else []
        return self._shell.page(
            request, "past.html", section="fleet", fleet=fleet, past=past, at=at, around=around,
            spans=SPANS, steps=steps, problem=problem,
        )  # fmt: skip


def steps_from(at: datetime, now: datetime) -> list[tuple[str, str]]:
    """(what a step is called, the moment that it leads to); none beyond now."""
    moved = [(name, at + timedelta(seconds=by)) for by, name in STEPS]
    return [(name, to.isoformat(timespec="seconds")) for name, to in moved if to < now]
