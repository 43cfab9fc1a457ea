"""Keeps a `ViewState` true: list, then watch, then list again what an event made old.

The one place of this face that waits for the network. It never touches a widget: it hands each new
state to `publish`, a few times a second at most, so that a busy fleet cannot flood the terminal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError, Denied, Failed, NotFound
from pdctl.client.stream import Connected, Disconnected, Reset, watch
from pdctl.contract.resources import FleetView
from pdctl.domain.handoff import Path
from pdctl_console import model
from pdctl_console.model import ViewState

log = logging.getLogger(__name__)
FRAME_S = 0.25
"""Events that come within one frame are drawn together."""
FIRST_RETRY_S, LONGEST_RETRY_S = 0.5, 5.0
BY_PATH = [f"mode:{path.value}" for path in (Path.PD, Path.CHUNKED, Path.AGGREGATED)]
TOKEN_HINT = "Give the token with --token-file FILE; Ctrl+R tries again."  # noqa: S105 - a hint
URL_HINT = "Is this pdctl's admin URL? Ctrl+R tries again."


@dataclass(frozen=True, slots=True)
class Look:
    """What the screen in view shows, hence what is worth asking for."""

    gauges: bool = True
    """Load, KV usage and rates: no events tell of them, so they are sampled."""
    latency: bool = True
    requests: bool = False
    operations: bool = False
    revisions: bool = False
    audit: bool = False
    signals: bool = False
    window_s: int | None = 300


class Follower:
    """Follows one control plane until cancelled."""

    def __init__(
        self,
        client: AdminClient,
        publish: Callable[[ViewState], None],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._publish = publish
        self._now = now
        self._changed = asyncio.Event()
        self._due = asyncio.Event()
        self._again = asyncio.Event()
        self._listed: dict[str, float] = {}
        self.looking = Look()
        self.state = ViewState()

    def look(self, at: Look) -> None:
        """The operator looks at something else now."""
        if at.window_s != self.looking.window_s:
            self._listed.pop("latency", None)
            self._set(model.on_latency(self.state, []))
            self._set(replace(self.state, latency_old=True))
        self.looking = at
        self._due.set()

    def again(self) -> None:
        """List everything anew now, whatever was wrong before."""
        self._again.set()
        self._listed.clear()
        self._set(model.on_stream(self.state) if self.state.streaming else self.state)

    async def run(self) -> None:
        """Follow for ever. What goes wrong is in the state; nothing ends this but cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell(), name="tell")
            while True:
                said = await self._until_failure()
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError  # a task group tells of a failure instead
                self._set(said)
                await self._pause(None if self.state.refused else FIRST_RETRY_S * 4)

    async def _until_failure(self) -> ViewState:
        failed: list[Exception] = []
        try:
            await self._follow()
        except* (Denied, NotFound) as refusals:
            failed += _leaves(refusals)
        except* Exception as defects:
            log.exception("the follower failed")
            failed += _leaves(defects)
        error = failed[0] if failed else None
        if isinstance(error, ClientError):
            hint = TOKEN_HINT if isinstance(error, Denied) else URL_HINT
            said = error.problem.detail or error.problem.title
            return model.on_trouble(self.state, f"{said} {hint}", refused=True)
        said = f"The console itself failed and starts over: {type(error).__name__}: {error}"
        return model.on_trouble(self.state, said)

    async def _follow(self) -> None:
        fleet = await self._first()
        self._set(replace(self.state, who=await self._client.who_am_i()))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(fleet.position), name="feed")
            group.create_task(self._refresh(), name="refresh")

    async def _first(self) -> FleetView:
        delay = FIRST_RETRY_S
        while True:
            try:
                return await self._list_fleet()
            except (Denied, NotFound):
                raise
            except ClientError as error:
                self._set(model.on_trouble(self.state, f"{error} Retrying."))
            await self._pause(delay)
            delay = min(delay * 2, LONGEST_RETRY_S)

    async def _watch(self, position: str) -> None:
        await self._try(self._list_events())
        async with aclosing(watch(self._client, position)) as facts:
            async for seen in facts:
                if isinstance(seen, Disconnected):
                    said = f"{seen.error.problem.detail} Retrying."
                    self._set(model.on_trouble(self.state, said, until=self._now()))
                elif isinstance(seen, Connected | Reset):
                    self._set(model.on_stream(self.state))
                    if isinstance(seen, Reset):
                        await self._try(self._list_events())
                else:
                    self._set(model.on_event(self.state, seen))

    async def _refresh(self) -> None:
        """List what is old and looked at; each list has its shortest interval."""
        while True:
            wait = await self._list_due()
            try:
                await asyncio.wait_for(self._due.wait(), wait)
            except TimeoutError:
                continue
            self._due.clear()
            await asyncio.sleep(FRAME_S)

    async def _list_due(self) -> float:
        """List what is due; seconds until the next list is."""
        state, looking = self.state, self.looking
        if not state.streaming:
            return LONGEST_RETRY_S
        many = len(state.pairs) > model.PAIRS_APPLIED
        plans: tuple[tuple[str, bool, bool, float, Callable[[], Coroutine[Any, Any, Any]]], ...] = (
            ("fleet", True, state.fleet_old, 0.5, self._list_fleet),
            ("gauges", looking.gauges, True, 2.0, self._list_fleet),
            ("pairs", True, state.pairs_old, 15.0 if many else 0.5, self._list_pairs),
            ("requests", looking.requests, state.requests_old, 1.0, self._list_requests),
            ("latency", looking.latency, state.latency_old, 2.0, self._list_latency),
            ("operations", looking.operations, state.operations_old, 0.5, self._list_operations),
            ("revisions", looking.revisions, state.revisions_old, 1.0, self._list_revisions),
            ("signals", looking.signals, state.signals_old, 0.5, self._list_signals),
            ("their numbers", looking.signals, True, 2.0, self._list_signals),
            ("audit", looking.audit, state.audit_old, 1.0, self._list_audit),
        )
        soonest = LONGEST_RETRY_S
        for name, wanted, old, interval, list_ in plans:
            if not (wanted and old):
                continue
            left = self._listed.get(name, -interval) + interval - time.monotonic()
            if left <= 0:
                await self._try(list_())
                self._listed[name] = time.monotonic()
                left = interval
            soonest = min(soonest, left)
        return max(soonest, 0.05)

    async def _list_fleet(self) -> FleetView:
        fleet = await self._client.fleet(pairs=False)
        self._listed["gauges"] = self._listed["fleet"] = time.monotonic()
        self._set(model.on_fleet(self.state, fleet, self._now()))
        return fleet

    async def _list_pairs(self) -> None:
        self._set(model.on_pairs(self.state, await self._client.pairs()))

    async def _list_requests(self) -> None:
        page = await self._client.requests(limit=model.REQUESTS_KEPT)
        self._set(model.on_requests(self.state, page.items))

    async def _list_latency(self) -> None:
        page = await self._client.histograms(by=BY_PATH, window_s=self.looking.window_s)
        served, moved = await asyncio.gather(
            self._client.goodput(by=["all"], window_s=self.looking.window_s),
            self._client.truth(self.looking.window_s),
        )
        self._set(model.on_latency(self.state, page.items, served.items, moved.fleet))

    async def _list_operations(self) -> None:
        page = await self._client.operations(limit=model.OPERATIONS_KEPT)
        self._set(model.on_operations(self.state, page))

    async def _list_revisions(self) -> None:
        try:
            page = await self._client.revisions(limit=model.REVISIONS_KEPT)
        except Failed as error:  # the store: everything else is as live as before
            kept, why = self.state.revisions, f"{error} Ctrl+R tries again."
            self._set(model.on_revisions(self.state, kept, why))
        else:
            self._set(model.on_revisions(self.state, page.items))

    async def _list_audit(self) -> None:
        page = await self._client.audit(limit=model.AUDIT_KEPT)
        self._set(model.on_audit(self.state, page))

    async def _list_signals(self) -> None:
        page = await self._client.signals()
        self._listed["signals"] = self._listed["their numbers"] = time.monotonic()
        self._set(model.on_signals(self.state, page))

    async def _list_events(self) -> None:
        page = await self._client.events_page(limit=model.EVENTS_KEPT)
        self._set(model.on_events(self.state, page.items))

    async def _try(self, call: Coroutine[Any, Any, Any]) -> None:
        """A list that failed is shown and tried again in its time; a refusal ends the following."""
        try:
            await call
        except Denied:
            raise
        except ClientError as error:
            self._set(model.on_trouble(self.state, str(error), streaming=self.state.streaming))

    async def _pause(self, seconds: float | None) -> None:
        """Wait, but not longer than until the operator asks again; None: only for that."""
        try:
            await asyncio.wait_for(self._again.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self._again.clear()

    async def _tell(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._publish(self.state)
            await asyncio.sleep(FRAME_S)

    def _set(self, state: ViewState) -> None:
        if state is self.state:
            return
        self.state = state
        self._changed.set()
        if state.old:
            self._due.set()


def _leaves(group: BaseExceptionGroup[Any]) -> list[Exception]:
    found: list[Exception] = []
    for one in group.exceptions:
        found += _leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found
