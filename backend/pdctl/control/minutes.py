"""Latency that outlives pdctl: each closed minute goes to the store, and old windows come from it.

Law: a window is what the store has plus what it has not got yet, so nothing counts twice, and a
restart leaves no hole: the minute that is open when pdctl ends is stored as it is, and the next
pdctl adds its own part. Only a pdctl that is killed loses what it had of that minute.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from pdctl.control.latency import LatencyBook
from pdctl.control.windows import COARSE_S, COARSE_SPAN_S
from pdctl.domain.errors import NotFoundError, OperatorError
from pdctl.domain.histogram import Histogram
from pdctl.domain.minutes import Mark, Minute
from pdctl.ports import Clock

log = logging.getLogger(__name__)
SAVE_S = 5.0
DAY_S = 86_400.0
KINDS = ("all", "mode", "pool", "model")
"""Groups that are kept by minute; instances and pairs are in memory for an hour."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO = re.compile(
    r"(\d+(?:\.\d*)?)\s*(?:(s)(?:ec|econds?)?|(m)(?:in|inutes?)?|(h)(?:ours?)?|(d)(?:ays?)?)"
    r"(?:\s+ago)?"
)


class MinuteStore(Protocol):
    """Durable memory of minutes and marks."""

    async def add_minutes(self, minutes: Sequence[Minute], *, older_than: float) -> None:
        """Append them, and drop those that began before `older_than` (wall seconds)."""
        ...

    async def minutes(self, by: str, since: float, until: float) -> list[Minute]:
        """Those of one group that began in [since, until), oldest first."""
        ...

    async def put_mark(self, mark: Mark) -> None:
        """Name a moment; a name that is there already is moved."""
        ...

    async def drop_mark(self, name: str) -> bool:
        """Forget a moment; False when it was not there."""
        ...

    async def marks(self) -> list[Mark]:
        """All of them, newest first."""
        ...


class Minutes:
    """The one writer of stored minutes, and the reader of windows of any length."""

    def __init__(
        self, latency: LatencyBook, store: MinuteStore, clock: Clock, *, keep_days: float = 7.0
    ) -> None:
        self._latency, self._store, self._clock = latency, store, clock
        self._keep_s = keep_days * DAY_S
        self._next = latency.this_minute()
        """The first minute that the store has not got."""
        self._failing = False
        self._one = asyncio.Lock()
        """A minute on its way to the store is neither there nor here."""

    async def run(self) -> None:
        """Store each minute when it is over, until cancelled; then the one that is open."""
        try:
            while True:
                await self._clock.sleep(SAVE_S)
                await self._save(self._latency.this_minute())
        finally:
            await self._save(self._latency.this_minute() + 1)

    async def view(self, by: str, since: float, until: float) -> dict[str, Histogram]:
        """What one group measured between two moments (wall seconds), by metric.

        Both ends are rounded outward to whole minutes.
        """
        if by.partition(":")[0] not in KINDS:
            raise OperatorError(
                "not_kept", f"{by} is not kept by minute.",
                "Ask for all, a mode, a pool or a model; or for a window of an hour at most.",
            )  # fmt: skip
        merged: dict[str, Histogram] = {}
        async with self._one:
            found = await self._store.minutes(by, since - COARSE_S, until)
            found += self._unsaved(by, since, until)
        for place, one in enumerate(found):
            for metric, counted in one.counts.items():
                merged.setdefault(metric, Histogram()).merge(counted)
            if not place % 50:
                await asyncio.sleep(0)  # requests may be routed on this loop: they go first
        return merged

    async def moment(self, text: str) -> float:
        """Wall seconds of "24h" (ago), of an ISO 8601 moment, or of a mark's name."""
        if (ago := _ago(text)) is not None:
            return max(0.0, self._clock.now() - ago)
        try:
            return max(0.0, datetime.fromisoformat(text).astimezone().timestamp())
        except (ValueError, OverflowError):
            pass
        marks = await self._store.marks()
        for mark in marks:
            if mark.name == text:
                return mark.at
        names = ", ".join(mark.name for mark in marks[:10]) or "none yet"
        raise NotFoundError(
            "no_such_moment", f"{text!r} is no mark, no duration and no moment.",
            f'Give "24h", "2026-01-31T12:00", or a mark ({names}).',
        )  # fmt: skip

    def _unsaved(self, by: str, since: float, until: float) -> list[Minute]:
        found = []
        for number in range(max(self._next, self._oldest()), self._latency.this_minute() + 1):
            at = self._wall(number)
            if since - COARSE_S <= at < until and (counts := self._latency.minute(number, by)):
                found.append(Minute(at, by, counts))
        return found

    async def _save(self, end: int) -> None:
        """Store all minutes before `end`; a store that fails is asked again for an hour."""
        begin = max(self._next, self._oldest())
        if begin >= end:
            return
        groups = [by for by in self._latency.groups() if by.partition(":")[0] in KINDS]
        minutes = [
            Minute(self._wall(number), by, counts)
            for number in range(begin, end)
            for by in groups
            if (counts := self._latency.minute(number, by))
        ]
        try:
            async with self._one:
                older_than = self._clock.now() - self._keep_s
                await self._store.add_minutes(minutes, older_than=older_than)
                self._next, self._failing = end, False
        except Exception as error:
            if not self._failing:
                log.warning("latency by minute cannot be stored, trying again: %s", error)
            self._failing = True

    def _oldest(self) -> int:
        """The oldest minute that memory still has whole."""
        return self._latency.this_minute() - COARSE_SPAN_S // COARSE_S

    def _wall(self, number: int) -> float:
        """Wall seconds of the beginning of a minute of the monotonic clock."""
        return self._clock.now() - self._clock.monotonic() + number * COARSE_S


def _ago(text: str) -> float | None:
    """Seconds of "90s", "15 min ago", "24h" or "2d"; None when it is none of these."""
    said = _AGO.fullmatch(text.strip())
    if said is None:
        return None
    found = float(said[1]) * _UNITS[next(unit for unit in said.groups()[1:] if unit)]
    return found if math.isfinite(found) else None
