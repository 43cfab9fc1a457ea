"""Counts what signals need and a snapshot does not say: requests and engines' counters, lately.

Memory is bounded: slices of 10 s for five minutes and of 60 s for an hour, and a sample of every
engine's counters each 10 s.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pdctl.control.groups import generates
from pdctl.domain import goodput
from pdctl.domain.handoff import Outcome, RequestRecord
from pdctl.domain.instance import EngineStats, Instance
from pdctl.domain.signals.readings import ENOUGH, Growth, Traffic
from pdctl.domain.signals.rules import RECENT_S
from pdctl.domain.topology import SloSpec
from pdctl.ports import Clock

SLICE_S, LONG_SLICE_S, LONG_S = 10, 60, 3600
_OURS = frozenset(
    {
        Outcome.OVERLOADED, Outcome.NO_INSTANCE, Outcome.UPSTREAM_ERROR, Outcome.TIMEOUT,
        Outcome.TRUNCATED,
    }
)  # fmt: skip
_UNJUDGED = frozenset({Outcome.REJECTED, Outcome.CLIENT_GONE})


@dataclass(slots=True)
class _Slice:
    """What ended within one slice of time."""

    index: int
    counts: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)


class _Window:
    """The newest slices of one width."""

    def __init__(self, width_s: int, span_s: int) -> None:
        self._width = width_s
        self._slices: deque[_Slice] = deque(maxlen=span_s // width_s)

    def at(self, now: float) -> _Slice:
        index = int(now // self._width)
        if not self._slices or self._slices[-1].index != index:
            self._slices.append(_Slice(index))
        return self._slices[-1]

    def total(self, now: float, what: str) -> Counter[str]:
        first = int(now // self._width) - (self._slices.maxlen or 0) + 1
        total: Counter[str] = Counter()
        for part in self._slices:
            if part.index >= first:
                total.update(getattr(part, what))
        return total


class Tally:
    """Requests and counters of the recent past. One writer; nothing here waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._short = _Window(SLICE_S, RECENT_S)
        self._long = _Window(LONG_SLICE_S, LONG_S)
        self._samples: dict[str, deque[tuple[float, EngineStats]]] = {}
        """By nonce: counters do not outlive a start."""

    def add(self, record: RequestRecord, slos: Sequence[SloSpec]) -> None:
        """Count a finished request."""
        if not generates(record) or record.outcome in _UNJUDGED:
            return
        now, failed = self._clock.monotonic(), record.outcome in _OURS
        short = self._short.at(now)
        short.counts["all"] += 1
        short.counts["failed"] += failed
        for slo in slos:
            judged = goodput.verdict(record, slo)
            if judged is None or judged.result is goodput.Result.UNJUDGED:
                continue
            for part in (short, self._long.at(now)):
                part.judged[slo.name] += 1
                part.missed[slo.name] += judged.result is goodput.Result.MISSED

    def sample(self, instances: Iterable[Instance]) -> None:
        """Remember every engine's counters; a slice's worth of time apart."""
        now, old = self._clock.monotonic(), self._samples
        self._samples = {}
        for one in instances:
            if one.stats is None or not one.nonce:
                continue
            seen = self._samples[one.nonce] = old.get(one.nonce) or deque()
            if not seen or now - seen[-1][0] >= SLICE_S:
                seen.append((now, one.stats))
            while len(seen) > 1 and now - seen[1][0] >= RECENT_S:
                seen.popleft()

    def growth(self, instances: Iterable[Instance]) -> dict[str, Growth]:
        """By instance: what its counters grew by since the oldest sample that is held."""
        return {
            one.id: _growth(seen[0][1], one.stats)
            for one in instances
            if one.stats is not None and (seen := self._samples.get(one.nonce))
        }

    def traffic(self, slos: Sequence[SloSpec], objective: float) -> Traffic:
        """What requests came to; `objective`: the share that shall meet each SLO."""
        now = self._clock.monotonic()
        counts = self._short.total(now, "counts")
        windows = [
            (window.total(now, "judged"), window.total(now, "missed"))
            for window in (self._short, self._long)
        ]
        burns = {slo.name: _burns(slo.name, windows, 1 - objective) for slo in slos}
        return Traffic(counts["all"], counts["failed"], burns=burns)


def _burns(
    name: str, windows: Sequence[tuple[Counter[str], Counter[str]]], budget: float
) -> tuple[float, float] | None:
    (judged, missed), (long_judged, long_missed) = windows
    if not judged[name]:
        return 0.0, 0.0
    if judged[name] < ENOUGH:
        return None
    short = missed[name] / judged[name] / budget
    return short, long_missed[name] / max(1, long_judged[name]) / budget


def _growth(first: EngineStats, last: EngineStats) -> Growth:
    def grown(name: str) -> float | None:
        before, after = getattr(first, name), getattr(last, name)
        return None if before is None or after is None else max(0.0, after - before)

    return Growth(
        expired=grown("nixl_expired"), failed=grown("nixl_failures"),
        preempted=grown("preemptions"),
    )  # fmt: skip
