"""A clock whose time passes only when a test says so: minutes take milliseconds."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

EPOCH = 1_800_000_000.0
"""Wall time at monotonic zero."""


class VirtualClock:
    """Implements `ports.Clock`; sleepers wake in order of their deadlines."""

    def __init__(self, settle: int = 1000) -> None:
        self._now = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ids = count()
        self._rounds = settle

    def now(self) -> float:
        """Wall time, UTC seconds."""
        return EPOCH + self._now

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has let `seconds` pass."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._ids), waiter))
        await waiter

    @property
    def sleepers(self) -> int:
        """How many still wait."""
        return sum(not waiter.done() for _, _, waiter in self._sleepers)

    async def settle(self) -> None:
        """Let everything that can run now run, until nothing is left but sleepers."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for _ in range(self._rounds):
            await asyncio.sleep(0)
            if ready is not None and not ready:
                return

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, waking every sleeper at its own moment."""
        end = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, waiter = heapq.heappop(self._sleepers)
            if waiter.done():
                continue
            self._now = max(self._now, at)
            waiter.set_result(None)
            await self.settle()
        self._now = end
        await self.settle()

    async def until(
        self, condition: Callable[[], bool], *, limit_s: float = 3600.0, step_s: float = 0.5
    ) -> float:
        """Let time pass until `condition` holds; the seconds it took; fails at the limit."""
        began = self._now
        await self.settle()
        while not condition():
            assert self._now - began < limit_s, f"not so after {limit_s} virtual seconds"
            await self.advance(step_s)
        return self._now - began
