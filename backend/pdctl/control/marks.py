"""Moments that operators name, to look at what was before and after: "before-switch"."""

from __future__ import annotations

import re

from pdctl.control.feed import Feed
from pdctl.control.minutes import MinuteStore
from pdctl.domain.errors import NotFoundError, OperatorError
from pdctl.domain.events import EventKind
from pdctl.domain.minutes import Mark
from pdctl.ports import Clock

NAME = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9_])?")
"""Not a number first: "24h" is a duration, "2026-01-31" a moment."""
MOST = 1000


class Marks:
    """Names and forgets moments; each is an entry in the operations log."""

    def __init__(self, store: MinuteStore, feed: Feed, clock: Clock) -> None:
        self._store, self._feed, self._clock = store, feed, clock

    async def put(self, name: str, *, actor: str, source: str) -> Mark:
        """Name this moment; a name that is there already is moved to it."""
        if not NAME.fullmatch(name) or ".." in name or name == "all":
            raise OperatorError(
                "bad_mark", f"A moment cannot be called {name!r}.",
                "Begin with a letter, then letters, digits, dot, dash, at most 64.",
            )  # fmt: skip
        if len(await self._store.marks()) >= MOST:
            raise OperatorError(
                "too_many_marks", f"There are {MOST} marks already.", "Remove some: pdctl mark -d."
            )
        mark = Mark(name, self._clock.now(), actor)
        await self._store.put_mark(mark)
        self._tell("mark", name, actor, source)
        return mark

    async def drop(self, name: str, *, actor: str, source: str) -> None:
        """Forget a moment's name."""
        if not await self._store.drop_mark(name):
            raise NotFoundError(
                "no_such_mark", f"There is no mark {name!r}.", "`pdctl mark` lists them."
            )
        self._tell("unmark", name, actor, source)

    async def all(self) -> list[Mark]:
        """All of them, newest first."""
        return await self._store.marks()

    def _tell(self, verb: str, name: str, actor: str, source: str) -> None:
        data = {"verb": verb, "actor": actor, "source": source, "outcome": "done", "after": name}
        self._feed.publish(EventKind.OPERATION, "fleet", data)
