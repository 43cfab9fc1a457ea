"""Follows the KV events of every instance that may be chosen, while a policy asks for them.

Each is asked where it publishes (`/kv_event_sources`), heard from its first message on as far as it
still has it, and asked for what was missed. One that is silent is asked now and then whether it has
said anything: what an idle engine holds stays true, what a hanging one holds is stale.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pdctl.domain.errors import EngineError
from pdctl.domain.kv_events import EventBatch, KvSource
from pdctl.domain.table import RoutingTable, Target
from pdctl.gateway.asking import ask
from pdctl.gateway.holdings import Holdings
from pdctl.gateway.upstream import LegError, Upstream
from pdctl.routing.blocks import Holding
from pdctl.tasks import settle, spawn

log = logging.getLogger(__name__)
QUIET_S = 3.0
"""Seconds without a message after which an engine is asked whether one was missed."""
AGAIN_S = 2.0
"""Seconds until a start that could not be followed is tried again."""
ASK_S = 2.0
SILENT = "publishes no KV events: it was launched without"


class Subscription(Protocol):
    """The events of one engine."""

    async def next(self) -> EventBatch:
        """The next message. EngineError when it cannot be read."""
        ...

    async def replay(self, since: int) -> list[EventBatch]:
        """All messages from number `since` on that the engine still has. EngineError if silent."""
        ...

    def close(self) -> None:
        """Hear no more."""
        ...


class Feed(Protocol):
    """Where events come from."""

    def subscribe(self, source: KvSource) -> Subscription:
        """Hear one engine from now on. EngineError for an address that is none."""
        ...

    def close(self) -> None:
        """Close what it holds."""
        ...


class Following:
    """One task for each start that is followed."""

    def __init__(self, feed: Feed, holdings: Holdings, changed: Callable[[], None]) -> None:
        self._feed, self._holdings, self._changed = feed, holdings, changed
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def follow(self, table: RoutingTable, upstream: Upstream) -> None:
        """Follow exactly the starts of this table."""
        starts = {(str(one.id), one.generation): one for one in table.targets}
        gone = [self._tasks.pop(start) for start in tuple(self._tasks) if start not in starts]
        for start, target in starts.items():
            if start not in self._tasks:
                holding = self._holdings.open(target)
                watch = _Watch(target, holding, upstream, self._changed)
                name = f"KV events of {target.id}"
                self._tasks[start] = spawn(watch.run(self._feed), name=name)
        await settle(*gone)

    async def stop(self) -> None:
        """Follow nothing."""
        tasks, self._tasks = self._tasks, {}
        await settle(*tasks.values())
        self._feed.close()
        self._holdings.clear()


class _Watch:
    """Follows one start."""

    def __init__(
        self, target: Target, holding: Holding, upstream: Upstream, changed: Callable[[], None]
    ) -> None:
        self._target, self._holding, self._upstream = target, holding, upstream
        self._changed = changed

    async def run(self, feed: Feed) -> None:
        """For as long as it is wanted."""
        while True:
            try:
                await self._follow(feed)
            except (EngineError, LegError) as error:
                why = error.message if isinstance(error, EngineError) else error.failed.why
                self._doubt(f"is not followed: {why}")
            await asyncio.sleep(AGAIN_S)

    async def _follow(self, feed: Feed) -> None:
        answer = await ask(self._upstream, self._target, "/kv_event_sources", within_s=ASK_S)
        source = source_of(answer, self._target.host)
        if isinstance(source, str):
            self._doubt(source)
            return
        heard = feed.subscribe(source)
        try:
            await self._catch_up(heard)
            while True:
                await self._hear(heard)
                self._changed()
        finally:
            heard.close()
            self._doubt("is not followed at the moment")

    async def _catch_up(self, heard: Subscription) -> None:
        """All that it has said so far; what it does not have any more is not known."""
        holding = self._holding
        try:
            batches = await heard.replay(holding.next_seq)
        except EngineError:
            if holding.next_seq:
                raise
            batches = []
        holding.refill(batches)
        holding.why_not = ""

    async def _hear(self, heard: Subscription) -> None:
        """The next message; after a silence, what was missed in it."""
        try:
            async with asyncio.timeout(QUIET_S):
                batch = await heard.next()
        except TimeoutError:
            await self._look(heard)
            return
        if not self._holding.take(batch):
            await self._fill(heard, batch)
        self._holding.why_not = ""

    async def _look(self, heard: Subscription) -> None:
        """Nothing came: was something lost, or is nobody there?"""
        holding = self._holding
        try:
            missed = await heard.replay(holding.next_seq)
        except EngineError as error:
            self._doubt(f"has not shown for a while that its events are whole: {error.message}")
            return
        if missed:
            holding.gaps += 1
            self._filled(missed)
        holding.why_not = ""

    async def _fill(self, heard: Subscription, batch: EventBatch) -> None:
        """Messages before `batch` are missing: have them sent again, or forget what was known."""
        holding, first = self._holding, not self._holding.next_seq
        if not first:
            holding.gaps += 1
            self._doubt("has lost events on the way, which are not filled in yet")
        try:
            missed = await heard.replay(holding.next_seq)
        except EngineError as error:
            log.warning("%s: lost KV events: %s", self._target.id, error.message)
            missed = []
        self._filled([*missed, batch], count=not first)

    def _filled(self, batches: list[EventBatch], *, count: bool = True) -> None:
        holding, before = self._holding, self._holding.forgotten
        holding.refill(batches)
        if count and holding.forgotten == before:
            holding.replays += 1
        elif count:
            log.warning("%s: KV events were lost: all it was known to hold is forgotten",
                        self._target.id)  # fmt: skip

    def _doubt(self, why: str) -> None:
        self._holding.why_not = why
        self._changed()


def source_of(answer: Mapping[str, Any], host: str) -> KvSource | str:
    """Where an engine publishes, by its `/kv_event_sources`; else why it cannot be followed."""
    on = [one for one in answer.values() if isinstance(one, dict) and one.get("endpoint")]
    on = [one for one in on if one.get("publisher") == "zmq"]
    if not on:
        return SILENT
    if len(answer) > 1:
        return f"has {len(answer)} data-parallel ranks: which one computes is not known before"
    endpoint, replay = str(on[0]["endpoint"]), str(on[0].get("replay_endpoint") or "")
    return KvSource(
        endpoint.replace("*", host), replay.replace("*", host), str(on[0].get("topic") or "")
    )
