"""A limit on every wait of one kind, kept by one timer.

A wait costs two assignments, not a timer of its own: answers have many waits, and few are long.
What never waits has no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def _nobody(_: float) -> None:
    """Nobody is told any more."""


class Watch:
    """Calls `expired` once when a wait has lasted `limit_s` seconds; then it is over."""

    __slots__ = ("_expired", "_limit", "_loop", "_since", "_timer")

    def __init__(self, limit_s: float, expired: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._expired = expired
        self._since: float | None = None
        self._limit = limit_s
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A wait begins."""
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit, self._check)

    def end(self) -> None:
        """It is over."""
        self._since = None

    def limit(self, limit_s: float) -> None:
        """Another limit from now on."""
        self._limit = limit_s
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(limit_s, self._check)

    def stop(self) -> None:
        """There is nothing more to wait for."""
        if self._timer is not None:
            self._timer.cancel()
        self._expired = _nobody  # whoever is told has us: no cycle may outlive the wait

    def _check(self) -> None:
        waited = 0.0 if self._since is None else self._loop.time() - self._since
        if waited >= self._limit:
            self._expired(self._limit)
        else:
            self._timer = self._loop.call_later(max(0.001, self._limit - waited), self._check)
