"""The truth meter: handed-over requests by what became of their KV, and the leases that are open.

Law: it looks at the picture that is there anyway (the scrapes) and asks nobody. What it cannot
judge within `PATIENCE_S` is unknown, and says so.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pdctl.control.fleet_state import FleetState
from pdctl.control.groups import listed
from pdctl.control.windows import SLICE_S, Windowed
from pdctl.domain.handoff import Load, RequestRecord
from pdctl.domain.instance import EngineStats, Instance
from pdctl.domain.truth import Counts, Kv, Offer, Reading, Stranded, judged, offered, stranded
from pdctl.ports import Clock

log = logging.getLogger(__name__)
LOOK_S = 1.0
PATIENCE_S = 20.0
"""How long a verdict is waited for: some scrapes may fail."""
READINGS = 300
"""Kept of each engine: ten minutes of scrapes."""
PENDING = 10_000
VERDICTS = 2000
"""Requests whose verdict is remembered by id, and stranded leases."""
MAX_SERIES = 1024
_COUNTERS = {"expired": "nixl_expired", "failed": "nixl_failures", "late": "nixl_late"}
"""NIXL's own counters, as they are called here."""


@dataclass(frozen=True, slots=True)
class Lease:
    """KV that a prefill instance holds for requests whose decode has not pulled it yet."""

    prefill: str
    requests: int
    oldest_s: float
    """Age of the oldest, seconds."""


class TruthBook:
    """Verdicts by fleet, pair and instance over windows. One writer; readers get copies."""

    def __init__(self, state: FleetState, clock: Clock, load: Callable[[], Load]) -> None:
        self._state, self._clock, self._load = state, clock, load
        self._series: dict[str, Windowed[Counts]] = {}
        self._pending: deque[Offer] = deque(maxlen=PENDING)
        self._readings: dict[str, list[Reading]] = {}
        self._last: dict[str, tuple[str, EngineStats]] = {}
        """By instance: its start (nonce) and its last scrape."""
        self._verdicts: dict[str, Kv] = {}
        self._stranded: deque[Stranded] = deque(maxlen=VERDICTS)

    async def run(self) -> None:
        """Look as often as there may be a new scrape."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                self.look()
            except Exception:
                log.exception("handed-over requests could not be judged")

    def add(self, record: RequestRecord) -> None:
        """A request ended: its verdict follows with a later scrape."""
        if (offer := offered(record)) is not None:
            if len(self._pending) == PENDING:
                self._count(self._pending.popleft(), Kv.UNKNOWN)
            self._pending.append(offer)
        for one in stranded(record):
            self._stranded.append(one)
            for by in ("all", f"instance:{one.prefill}"):
                self._add(by, "stranded", 1.0)

    def look(self) -> None:
        """Take in new scrapes, and judge who can be judged."""
        fresh = [one for one in self._state.fleet.instances if self._is_new(one)]
        for one in fresh:
            self._take(one)
        now, waiting = self._clock.now(), list(self._pending)
        self._pending.clear()
        for offer in waiting:
            found = judged(offer, self._readings.get(offer.decode, ()))
            if found is None and now - offer.first < PATIENCE_S:
                self._pending.append(offer)
            else:
                self._count(offer, found or Kv.UNKNOWN)

    def view(self, by: str, window_s: int | None) -> Counts:
        """What was counted of one group: "all", "pair:P>D", "instance:ID"."""
        series = self._series.get(by)
        return Counts() if series is None else series.view(self._clock.monotonic(), window_s)

    def groups(self) -> list[str]:
        """Every group that has data."""
        return listed(set(self._series))

    def of(self, request: str) -> Kv | None:
        """What became of one request's KV; None: not judged (yet), or long ago."""
        return self._verdicts.get(request)

    @property
    def pending(self) -> int:
        """Requests that wait for the next scrape."""
        return len(self._pending)

    def leases(self) -> list[Lease]:
        """KV that is waiting to be pulled now, by prefill instance."""
        now = self._clock.monotonic()
        return [
            Lease(id_, count, max(0.0, now - since))
            for id_, (count, since) in sorted(self._load().held.items())
        ]

    def stranded(self) -> list[Stranded]:
        """KV that nobody can pull any more and that its lease still pins, oldest first."""
        edge = self._clock.now() - self._state.fleet.desired.connector.lease_s
        return [one for one in self._stranded if one.since >= edge]

    def _is_new(self, one: Instance) -> bool:
        if one.stats is None:
            return False
        nonce, last = self._last.get(one.id, ("", None))
        return last is None or nonce != one.nonce or last.at < one.stats.at

    def _take(self, one: Instance) -> None:
        """One more scrape of an engine; a new start begins its counters anew."""
        assert one.stats is not None  # noqa: S101 - only those with a new scrape come here
        nonce, last = self._last.get(one.id, ("", None))
        if nonce != one.nonce:
            self._readings[one.id] = []
        elif last is not None:
            for name, grown in _grown(last, one.stats):
                for by in ("all", f"instance:{one.id}"):
                    self._add(by, name, grown)
        readings = self._readings[one.id]
        readings.append(Reading.of(one.stats))
        del readings[:-READINGS]
        self._last[one.id] = (one.nonce, one.stats)

    def _count(self, offer: Offer, kv: Kv) -> None:
        for by in ("all", f"pair:{offer.prefill}>{offer.decode}"):
            self._add(by, kv.value, 1.0)
            self._add(by, f"{kv.value}_tokens", offer.tokens)
        self._verdicts[offer.request] = kv
        if len(self._verdicts) > VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]

    def _add(self, by: str, name: str, count: float) -> None:
        series = self._series.get(by)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                return
            series = self._series[by] = Windowed(Counts)
        series.at(int(self._clock.monotonic() // SLICE_S)).add(name, count)


def _grown(last: EngineStats, stats: EngineStats) -> list[tuple[str, float]]:
    """By how much NIXL's counters grew; what an engine does not tell has not grown."""
    found = []
    for name, field in _COUNTERS.items():
        before, after = getattr(last, field), getattr(stats, field)
        if before is not None and after is not None and after > before:
            found.append((name, after - before))
    return found
