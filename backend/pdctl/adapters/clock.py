"""The real clock: the one place that reads wall time."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Wall and monotonic time of this machine (ports.Clock)."""

    def now(self) -> float:
        """Wall time, UTC seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await asyncio.sleep(seconds)
