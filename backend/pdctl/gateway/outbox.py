"""What the data plane tells the control plane: a bounded queue that never makes a request wait.

When the reader is slow the oldest record is dropped and counted. A load is never queued: one falls
due at most ten times a second, goes before the facts that wait, and is read when it goes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from pdctl.domain.handoff import Load, RequestRecord, RouterEvent, Suspect

LOAD_INTERVAL_S = 0.1


class Outbox:
    """One writer side, one reader."""

    def __init__(self, load: Callable[[], Load], capacity: int = 20_000) -> None:
        self._read_load = load
        self._capacity = capacity
        self._waiting: deque[RequestRecord | Suspect] = deque()
        self._load_due = False
        self._ready = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.dropped = 0
        """Records and suspicions lost because nobody read them in time."""

    def put(self, event: RequestRecord | Suspect) -> None:
        """Queue a fact."""
        if len(self._waiting) >= self._capacity:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(event)
        self._ready.set()

    def load_changed(self, *, now: bool = False) -> None:
        """The load is another; `now` sends it without waiting (a drain may depend on it)."""
        if now:
            self._send_load()
        elif self._timer is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOAD_INTERVAL_S, self._send_load)

    def close(self) -> None:
        """No more loads; the reader gets what is queued and then the end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._closed = True
        self._ready.set()

    async def events(self) -> AsyncIterator[RouterEvent]:
        """Facts in order, and loads, until the outbox is closed and empty."""
        while True:
            while self._waiting or self._load_due:
                if self._load_due:
                    self._load_due = False
                    yield self._read_load()
                else:
                    yield self._waiting.popleft()
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()

    def _send_load(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._load_due = True
        self._ready.set()
