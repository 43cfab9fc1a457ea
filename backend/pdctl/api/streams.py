"""Long answers that end when they must: on shutdown at once, on disconnect with their source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from pdctl.tasks import settle, spawn

T = TypeVar("T")


async def until(
    closing: asyncio.Event, source: AsyncIterator[T], idle_s: float | None = None
) -> AsyncGenerator[T | None, None]:
    """Items of `source` until it ends or `closing` is set; None after `idle_s` without one."""
    stop = spawn(closing.wait(), name="stream-stop")
    upcoming = spawn(_next(source), name="stream-next")
    try:
        while not closing.is_set():
            await asyncio.wait(
                {upcoming, stop}, timeout=idle_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not upcoming.done():
                if not stop.done():
                    yield None
                continue
            found = upcoming.result()
            if not found:
                return
            yield found[0]
            upcoming = spawn(_next(source), name="stream-next")
    finally:
        await settle(upcoming, stop)


async def _next(source: AsyncIterator[T]) -> tuple[T] | None:
    """The next item in a tuple (items may be falsy), None at the end."""
    try:
        return (await anext(source),)
    except StopAsyncIteration:
        return None
