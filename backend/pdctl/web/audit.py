"""The operations log in the browser: every verb, searched, paged, and taken away as a file."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pdctl.client.admin import AdminClient
from pdctl.web import paging, words
from pdctl.web.shell import Shell

PAGE = 50
LONGEST = 200
"""Characters of a filter that are looked for."""


class Audit:
    """Handlers of the log."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def routes(self) -> list[Route]:
        """The log, as a page and as the piece of it that stays new."""
        return [Route("/audit", self.page), Route("/ui/audit", self.fragment)]

    async def page(self, request: Request) -> Response:
        """Entries under the filters of the URL, newest first."""
        client = self._shell.client(request)
        fleet, found = await asyncio.gather(client.fleet(pairs=False), _found(client, request))
        return self._shell.page(request, "audit.html", section="audit", fleet=fleet, **found)

    async def fragment(self, request: Request) -> Response:
        """The newest entries under the same filters."""
        found = await _found(self._shell.client(request), request)
        return self._shell.fragment("fragments/audit.html", **found)


async def _found(client: AdminClient, request: Request) -> dict[str, Any]:
    query = request.query_params
    filters = {
        "verb": _known(query.get("verb"), words.VERBS),
        "outcome": _known(query.get("outcome"), words.ENDS),
        "source": _known(query.get("source"), words.SOURCES),
        "actor": query.get("actor", "").strip()[:LONGEST],
        "subject": query.get("subject", "").strip()[:LONGEST],
        "text": query.get("text", "").strip()[:LONGEST],
    }
    asked = {name: value for name, value in filters.items() if value}
    before = paging.number(query.get("before"))
    log = await client.audit(limit=PAGE, before=before, **asked)
    page = paging.whole_pages(
        log.items[::-1], str(before or ""), PAGE, lambda entry: str(entry.seq)
    )
    return {"page": page, "note": log.note, "filters": filters, "asked": asked}


def _known(text: str | None, table: dict[str, Any]) -> str:
    return text if text in table else ""
