"""What of signals outlives pdctl: those that fired, and silences."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from pdctl.domain.signals.book import Key, Signal, State
from pdctl.domain.signals.silences import Silence

log = logging.getLogger(__name__)


class SignalStore(Protocol):
    """Durable memory of signals."""

    async def save_signals(self, signals: Sequence[Signal]) -> None:
        """Put each as it is now; a signal is named by its episode."""
        ...

    async def firing_signals(self) -> list[Signal]:
        """Those that had not been resolved."""
        ...

    async def signal_history(self, *, before: str | None, limit: int) -> list[Signal]:
        """Newest first by when they fired; only those before the episode `before`."""
        ...

    async def put_silence(self, silence: Silence) -> None:
        """Keep it."""
        ...

    async def drop_silence(self, id_: str) -> None:
        """Forget it."""
        ...

    async def silences(self, *, after: float) -> list[Silence]:
        """Those that end after that wall time; others are forgotten."""
        ...


class Unsaved:
    """Signals that the store has not got yet; a store that fails is asked again."""

    def __init__(self, store: SignalStore) -> None:
        self._store = store
        self._signals: dict[str, Signal] = {}
        self._failing = False

    def add(self, signals: Iterable[Signal]) -> None:
        """Save these at the next chance."""
        self._signals |= {one.episode: one for one in signals if one.state is not State.PENDING}

    async def save(self) -> None:
        """Try to."""
        batch = dict(self._signals)
        if not batch:
            return
        try:
            await self._store.save_signals(list(batch.values()))
        except Exception as error:
            if not self._failing:
                log.warning("signals cannot be stored, trying again: %s", error)
            self._failing = True
            return
        self._failing = False
        self._signals = {
            episode: one for episode, one in self._signals.items() if one is not batch.get(episode)
        }


async def recall(store: SignalStore) -> dict[Key, Signal]:
    """Signals that fired when the last control plane ended; they are not known until looked at."""
    return {one.key: one for one in await store.firing_signals()}
