"""The engine's clock: real time, scaled.

The scheduler keeps its own instant and sleeps until this clock has caught up with it, so a late
wake-up of the event loop shortens the next sleep and never stretches the model.
"""

from __future__ import annotations

import asyncio
import time

_WORTH_SLEEPING_S = 0.000_5
"""Real seconds below which the event loop's timer is too coarse; the debt is carried over."""


class SimClock:
    """Simulated seconds since the engine was made; `speed` of them pass per real second."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._started = time.monotonic()

    def now(self) -> float:
        """The simulated instant, in seconds."""
        return (time.monotonic() - self._started) * self.speed

    def real(self, seconds: float) -> float:
        """Real seconds that `seconds` simulated ones take."""
        return seconds / self.speed

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` of simulated time."""
        await asyncio.sleep(max(0.0, self.real(seconds)))

    async def reach(self, instant: float) -> None:
        """Sleep until `instant`, or only yield when it is past or too near to time."""
        ahead = self.real(instant - self.now())
        await asyncio.sleep(ahead if ahead > _WORTH_SLEEPING_S else 0)


def epoch_seconds() -> float:
    """Wall time for `created` fields: an engine is a program of its own and has no Clock port."""
    return time.time()  # noqa: TID251
