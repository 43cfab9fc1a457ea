"""A deadline on anything we wait for, measured by the Clock port so that tests can turn it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from pdctl import tasks
from pdctl.ports import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T], *, name: str) -> T:
    """The result of `work`; TimeoutError, and `work` cancelled, after `seconds`."""
    job = tasks.spawn(_outcome(work), name=name)
    timer = tasks.spawn(clock.sleep(seconds), name=f"{name}:deadline")
    try:
        await asyncio.wait((job, timer), return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            result = job.result()
            if isinstance(result, _Failure):
                raise result.error
            return result
        raise TimeoutError(f"{name} did not end within {seconds:g} s")
    finally:
        await tasks.settle(*(task for task in (job, timer) if not task.done()))


async def _outcome(work: Coroutine[Any, Any, T]) -> T | _Failure:
    """Carry an expected exception as a value: the waiter raises it, the task has not failed."""
    try:
        return await work
    except Exception as error:  # handed on by `within`
        return _Failure(error)
