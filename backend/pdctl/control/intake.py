"""Takes in what the router tells: records into memory, histograms, the feed and the store.

Law: nothing here may stop the intake. A failing store costs history (counted, and said once), a
failing listener costs that one message; requests are served and shown all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from pdctl.control.feed import Feed
from pdctl.control.latency import LatencyBook
from pdctl.control.request_log import RequestLog
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Load, RequestRecord, RouterEvent, Suspect
from pdctl.domain.phases import final_legs
from pdctl.ports import DataPlane, Store
from pdctl.tasks import settle, spawn

log = logging.getLogger(__name__)
BATCH = 200
BATCH_S = 0.5
KEPT = 20_000
"""Records that wait for a failing store at most; the oldest go first."""
ANNOUNCED_PER_TICK = 25
"""request.finished events between two ticks of BATCH_S; the rest is told as one with counts."""
LONGEST = 1024
"""Characters of a text that are kept: an unknown model's name can be as long as a body."""
MANY = "requests"
"""Subject of a request.finished event that stands for many: data has `count` and `by`."""


class Intake:
    """The one reader of the data plane's events."""

    def __init__(
        self,
        *,
        data_plane: DataPlane,
        requests: RequestLog,
        latency: LatencyBook,
        feed: Feed,
        store: Store,
        on_load: Callable[[Load], None],
        on_suspect: Callable[[Suspect], None],
        on_record: Callable[[RequestRecord], None],
        on_stored: Callable[[Sequence[RequestRecord]], None] = lambda _: None,
        judge: Callable[[RequestRecord], RequestRecord] = lambda record: record,
        wanted: Callable[[RequestRecord], bool] = lambda _: True,
    ) -> None:
        self._data_plane, self._store, self._feed = data_plane, store, feed
        self._requests, self._latency = requests, latency
        self._on_load, self._on_suspect, self._on_record = on_load, on_suspect, on_record
        self._on_stored, self._judge, self._wanted = on_stored, judge, wanted
        self._pending: deque[RequestRecord] = deque()
        self._enough = asyncio.Event()
        self._announced = 0
        self._untold: Counter[str] = Counter()
        self._failing = False
        self.dropped = 0
        """Records that the store should have and never got."""
        self.stored = 0
        self.passed_over = 0
        """Records that were not drawn for the store."""

    async def run(self) -> None:
        """Take in until cancelled; what is pending then is stored first."""
        writer = spawn(self._write_often(), name="request-writer")
        teller = spawn(self._tell_often(), name="request-teller")
        try:
            async for event in self._data_plane.events():
                self._take(event)
        finally:
            await settle(writer, teller)
            self._tell_rest()
            while self._pending and await self._flush():
                pass

    def _take(self, event: RouterEvent) -> None:
        try:
            if isinstance(event, RequestRecord):
                self._record(event)
            elif isinstance(event, Load):
                self._on_load(event)
            else:
                self._on_suspect(event)
        except Exception:
            log.exception("a message of the router could not be taken in")

    def _record(self, record: RequestRecord) -> None:
        record = self._judge(bounded(record))
        self._pending.append(record)
        if len(self._pending) > KEPT:
            self._pending.popleft()
            self.dropped += 1
        if len(self._pending) >= BATCH:
            self._enough.set()
        self._requests.add(record)
        self._latency.add(record)
        self._announce(record)
        self._on_record(record)

    def _announce(self, record: RequestRecord) -> None:
        if self._announced >= ANNOUNCED_PER_TICK:
            self._untold[f"{record.path.value}/{record.outcome.value}"] += 1
            return
        self._announced += 1
        self._feed.publish(EventKind.REQUEST_FINISHED, record.id, short(record))

    def _tell_rest(self) -> None:
        if self._untold:
            by = dict(self._untold)
            self._feed.publish(
                EventKind.REQUEST_FINISHED, MANY, {"count": sum(by.values()), "by": by}
            )
        self._untold.clear()
        self._announced = 0

    async def _tell_often(self) -> None:
        while True:
            await asyncio.sleep(BATCH_S)
            self._tell_rest()

    async def _write_often(self) -> None:
        while True:
            await self._pause()
            await self._flush()

    async def _pause(self) -> None:
        """Until the next tick, or earlier when a batch is full (not while the store fails)."""
        if self._failing:
            await asyncio.sleep(BATCH_S)
            return
        try:
            async with asyncio.timeout(BATCH_S):
                await self._enough.wait()
        except TimeoutError:
            return

    async def _flush(self) -> bool:
        """Write one batch; True when it was written (or there was none)."""
        batch = list(islice(self._pending, BATCH))
        if len(self._pending) <= BATCH:
            self._enough.clear()
        if not batch:
            return True
        before = self.dropped
        try:
            await self._store.add_requests(kept := [one for one in batch if self._wanted(one)])
        except Exception as error:
            self._store_failed(error)
            return False
        # Meanwhile the oldest may have been dropped to make room: they were in this batch.
        written_still_here = max(0, len(batch) - (self.dropped - before))
        for _ in range(written_still_here):
            self._pending.popleft()
        self._on_stored(batch)
        self.stored += len(kept)
        self.passed_over += len(batch) - len(kept)
        self._store_works()
        return True

    def _store_failed(self, error: Exception) -> None:
        if not self._failing:
            log.warning("request records cannot be stored: %s", error)
            self._notice("error", f"Request records cannot be stored: {error}")
        self._failing = True

    def _store_works(self) -> None:
        if self._failing:
            lost = f"; {self.dropped} lost so far" if self.dropped else "; none was lost"
            self._notice("info", f"Request records are stored again{lost}.")
        self._failing = False

    def _notice(self, level: str, message: str) -> None:
        self._feed.publish(EventKind.NOTICE, "fleet", {"level": level, "message": message})


def bounded(record: RequestRecord) -> RequestRecord:
    """The record without the tails of texts that a client may make as long as its body."""
    if max(len(record.endpoint), len(record.model), len(record.error)) <= LONGEST:
        return record
    return replace(
        record, endpoint=record.endpoint[:LONGEST], model=record.model[:LONGEST],
        error=record.error[:LONGEST],
    )  # fmt: skip


def short(record: RequestRecord) -> dict[str, Any]:
    """What a face needs to draw the request's row; the whole record is one call away."""
    by_kind = {leg.kind: leg.instance for leg in final_legs(record)}
    return {
        "id": record.id,
        "endpoint": record.endpoint,
        "path": record.path.value,
        "outcome": record.outcome.value,
        "status": record.status,
        "error": record.error,
        "ttft_ms": record.ttft_ms,
        "tpot_ms": record.tpot_ms,
        "e2e_ms": record.e2e_ms,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "prefill": by_kind.get("prefill", ""),
        "decode": by_kind.get("decode") or by_kind.get("whole") or "",
    }
