"""Sleep until a moment, or until somebody rings: how the control loops rest."""

from __future__ import annotations

import asyncio

from pdctl import tasks
from pdctl.ports import Clock


class Alarm:
    """One waiter, any number of ringers; a ring that comes early is kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiter, or let its next rest end at once."""
        self._rung.set()

    async def rest(self, until: float | None) -> None:
        """Wait until `until` (monotonic seconds; None: for ever) or a ring."""
        if not self._rung.is_set():
            await self._wait(until)
        self._rung.clear()

    async def _wait(self, until: float | None) -> None:
        ring = tasks.spawn(self._rung.wait(), name="alarm:ring")
        waits: list[asyncio.Task[bool] | asyncio.Task[None]] = [ring]
        if until is not None:
            pause = max(0.0, until - self._clock.monotonic())
            waits.append(tasks.spawn(self._clock.sleep(pause), name="alarm:time"))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await tasks.settle(*(wait for wait in waits if not wait.done()))
