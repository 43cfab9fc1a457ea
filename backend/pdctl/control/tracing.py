"""Sends the spans of finished requests on, a batch at a time.

Law: nobody waits for it. What does not fit in the queue, and what the collector does not take, is
dropped, counted and said once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from pdctl.connectors import PD_ENDPOINTS
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.tracing import Span, sampled, spans

log = logging.getLogger(__name__)
EVERY_S = 1.0
BATCH = 200
"""Requests at once; each has about five spans."""
KEPT = 10_000
"""Requests that wait at most."""
LAST_S = 3.0
"""How long the end may take."""
Notice = Callable[[str, str], None]
"""(level, message)"""


class Sink(Protocol):
    """Where spans go."""

    async def send(self, batch: Sequence[Span]) -> bool:
        """Whether they were taken. Never raises for a collector that is away."""
        ...


class Tracing:
    """One queue and its counts."""

    def __init__(self, sink: Sink, notice: Notice) -> None:
        self._sink, self._notice = sink, notice
        self._waiting: deque[RequestRecord] = deque()
        self._failing = False
        self.sent = 0
        """Spans that the collector took."""
        self.dropped = 0
        """Requests whose spans it never got."""

    def add(self, record: RequestRecord) -> None:
        """Take a finished generation."""
        if record.endpoint not in PD_ENDPOINTS or not sampled(record.trace):
            return
        if len(self._waiting) >= KEPT:
            self.dropped += 1
            return
        self._waiting.append(record)

    async def run(self) -> None:
        """Send until cancelled; then what is left, for as long as that may take."""
        try:
            while True:
                await asyncio.sleep(0 if len(self._waiting) >= BATCH else EVERY_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_S):
                    while self._waiting:
                        await self.flush()

    async def flush(self) -> None:
        """Send one batch."""
        batch = list(islice(self._waiting, BATCH))
        if not batch:
            return
        for _ in batch:
            self._waiting.popleft()
        made = [span for record in batch for span in spans(record, secrets.token_hex)]
        try:
            taken = await self._sink.send(made)
        except Exception:
            log.exception("spans could not be sent")
            taken = False
        if taken:
            self.sent += len(made)
        else:
            self.dropped += len(batch)
        self._tell(failing=not taken)

    def _tell(self, *, failing: bool) -> None:
        if failing and not self._failing:
            self._notice("warning", "The trace collector takes no spans; they are dropped.")
        elif self._failing and not failing:
            self._notice("info", f"Spans are sent again; {self.dropped} requests have none.")
        self._failing = failing
