"""The reconciler's running work: named tasks, at most one per key, each waking the loop at its end.

Law: starting a key that runs is refused, not queued; the next look at the whole picture asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from pdctl import tasks
from pdctl.ports import Clock

log = logging.getLogger(__name__)
Work = Callable[[], Coroutine[Any, Any, None]]
FAILURE_PAUSE_S = 1.0
"""How long a key stays taken after its work raised, so that a defect cannot become a busy loop."""


class Jobs:
    """Keyed background work."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock, self._wake = clock, wake
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self, key: str, work: Work, *, quiet: bool = False) -> bool:
        """Run `work` under `key`; False, and nothing done, when that key is at work already.

        `quiet` work does not wake the planner at its end: it says itself when something changed.
        """
        if key in self._running:
            return False
        task = tasks.spawn(self._run(key, work), name=f"fleet:{key}")
        self._running[key] = task
        # a callback, not a `finally`: work that is cancelled before it began never runs
        task.add_done_callback(lambda _: self._ended(key, quiet=quiet))
        return True

    def busy(self, key: str) -> bool:
        """True while `key` is at work."""
        return key in self._running

    def cancel(self, key: str) -> None:
        """End the work of `key`, if there is any."""
        if task := self._running.get(key):
            task.cancel()

    async def settle(self) -> None:
        """End everything."""
        await tasks.settle(*self._running.values())

    async def _run(self, key: str, work: Work) -> None:
        try:
            await work()
        except Exception:
            log.exception("%s failed", key)
            await self._clock.sleep(FAILURE_PAUSE_S)

    def _ended(self, key: str, *, quiet: bool) -> None:
        del self._running[key]
        if not quiet:
            self._wake()
