"""Wait for a condition, generously: tests say what must become true, never how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Return as soon as `condition` holds; TimeoutError when it never does."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.02)
