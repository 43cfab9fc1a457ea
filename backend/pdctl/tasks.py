"""Background tasks that are named, referenced and loud when they fail.

The one place that may call `asyncio.create_task`: a bare task is dropped by the garbage collector
and its exception is seen by nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
_kept: set[asyncio.Task[Any]] = set()


def spawn(coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Start `coro` as a named task that is kept alive and whose failure is logged."""
    task = asyncio.create_task(coro, name=name)
    _kept.add(task)
    task.add_done_callback(_done)
    return task


async def settle(*tasks: asyncio.Task[Any]) -> None:
    """Cancel `tasks` and wait until each has ended, whatever it ended with."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _done(task: asyncio.Task[Any]) -> None:
    _kept.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("task %s failed", task.get_name(), exc_info=error)
