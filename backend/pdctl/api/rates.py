"""Rates between the last two scrapes of an engine: the one thing a snapshot cannot say."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from pdctl.domain.instance import EngineStats, Instance

REMEMBERED = 2048


@dataclass(slots=True)
class _Two:
    before: EngineStats | None
    last: EngineStats


class Rates:
    """Remembers the last two scrapes that were shown, by start (a restart begins anew)."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Two] = OrderedDict()

    def per_second(self, one: Instance, *counters: str) -> float | None:
        """Growth per second of these counters together; None until two scrapes are known, when the
        engine does not tell, or after it began to count anew."""
        if one.stats is None:
            return None
        two = self._remember((one.id, one.nonce), one.stats)
        if two.before is None or two.last.at <= two.before.at:
            return None
        grown = 0.0
        for name in counters:
            before, now = getattr(two.before, name), getattr(two.last, name)
            if before is None or now is None or now < before:
                return None
            grown += now - before
        return grown / (two.last.at - two.before.at)

    def _remember(self, key: tuple[str, str], stats: EngineStats) -> _Two:
        two = self._seen.get(key)
        if two is None:
            two = self._seen[key] = _Two(None, stats)
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        elif stats.at != two.last.at:
            two.before, two.last = two.last, stats
        self._seen.move_to_end(key)
        return two
