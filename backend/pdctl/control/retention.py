"""Drops request records that are too old or too many, a few at a time.

Law: nobody waits for it. A step is one short transaction, and others may write before the next.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Protocol

from pdctl.domain.keeping import Keeping
from pdctl.ports import Clock

log = logging.getLogger(__name__)
LOOK_S = 30.0
STEP = 500
"""Rows of one transaction: some milliseconds."""
PAUSE_S = 0.05
"""Between two steps, so that who waits to write comes first."""


class RequestShelf(Protocol):
    """Durable request records."""

    async def drop_requests(self, *, keep: int, before: float, most: int) -> tuple[int, int]:
        """Drop the oldest: (received before that wall second, beyond the newest `keep`).

        At most `most` rows of each kind in one transaction.
        """
        ...

    async def request_bytes(self) -> float | None:
        """Bytes that one of the newest records takes on average; None: there is none."""
        ...


class Retention:
    """The one that prunes requests. Counts what it drops, by reason."""

    def __init__(self, keeping: Keeping, store: RequestShelf, clock: Clock) -> None:
        self._keeping, self._store, self._clock = keeping, store, clock
        self.dropped: Counter[str] = Counter()
        """Records dropped since the start by reason: age | count | size."""

    async def run(self) -> None:
        """Look every `LOOK_S` until cancelled; a store that fails is asked again then."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                await self.prune()
            except Exception as error:
                log.warning("old request records could not be dropped: %s", error)

    async def prune(self) -> None:
        """Drop all that is too much now."""
        keep, why = await self._room()
        while True:
            before = self._clock.now() - self._keeping.age_s
            old, many = await self._store.drop_requests(keep=keep, before=before, most=STEP)
            self.dropped["age"] += old
            self.dropped[why] += many
            if max(old, many) < STEP:
                return
            await self._clock.sleep(PAUSE_S)

    async def _room(self) -> tuple[int, str]:
        """How many records may stay, and which bound says so."""
        each = await self._store.request_bytes()
        fit = self._keeping.rows if each is None else int(self._keeping.size / each)
        return (fit, "size") if fit < self._keeping.rows else (self._keeping.rows, "count")
