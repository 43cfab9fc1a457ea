"""Latency distributions by mode, pool, model, instance and pair over sliding windows.

Law: counts are added, percentiles are never averaged. One writer (the intake); readers get copies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from pdctl.control.groups import PoolOf, generates, groups_of, listed, pool_by_name
from pdctl.control.windows import COARSE_S, SLICE_S, Windowed
from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.histogram import Histogram, bucket
from pdctl.domain.phases import final_legs, phases
from pdctl.ports import Clock

METRICS = ("ttft", "tpot", "itl", "e2e", "queue", "prefill", "transfer")
WINDOWS_S: tuple[int | None, ...] = (60, 300, 3600, None)
"""The windows that faces offer; None is since the start."""
MAX_GROUPS = 1024
"""Groups held at most; the one that was counted longest ago goes first."""

Group = dict[str, Windowed[Histogram]]
"""The series of one group by metric."""


class LatencyBook:
    """Every latency series."""

    def __init__(self, clock: Clock, pool_of: PoolOf = pool_by_name) -> None:
        self._clock = clock
        self._pool_of = pool_of
        self._groups: OrderedDict[str, Group] = OrderedDict()

    def add(self, record: RequestRecord) -> None:
        """Count what a generation measured; what it does not know is not counted."""
        legs = final_legs(record)
        values = _measured(record, legs)
        if not values:
            return
        index = int(self._clock.monotonic() // SLICE_S)
        found = [(name, ms, bucket(ms)) for name, ms in values if ms is not None]
        gaps = sum(count for _, count in record.itl)
        for by in groups_of(record, legs, self._pool_of):
            group = self._group(by)
            for name, ms, place in found:
                _series(group, name).at(index).add_known(ms, place)
            if gaps:
                _series(group, "itl").at(index).add_buckets(record.itl, gaps)

    def view(self, metric: str, by: str, window_s: float | None) -> Histogram:
        """The distribution of one metric (milliseconds); empty when nothing is known.

        `window_s` up to an hour, rounded up to whole slices (10 s; 60 s beyond five minutes);
        None: since the start.
        """
        series = self._groups.get(by, {}).get(metric)
        return Histogram() if series is None else series.view(self._clock.monotonic(), window_s)

    def series(self, metric: str, by: str, window_s: float) -> list[tuple[float, Histogram]]:
        """One metric over time: (age of a slice in seconds, what it counted), oldest first."""
        found = self._groups.get(by, {}).get(metric)
        return [] if found is None else list(found.slices(self._clock.monotonic(), window_s))

    def groups(self) -> list[str]:
        """Every `by` that has data: "all" first, then modes, pools, models, instances, pairs."""
        return listed(set(self._groups))

    def minute(self, number: int, by: str) -> dict[str, Histogram]:
        """What one group counted in one minute (monotonic) of the last hour, by metric."""
        group = self._groups.get(by, {})
        found = {metric: series.minute(number) for metric, series in group.items()}
        return {metric: counted for metric, counted in found.items() if counted.total}

    def this_minute(self) -> int:
        """The number of the minute that is open now."""
        return int(self._clock.monotonic() // COARSE_S)

    def _group(self, by: str) -> Group:
        group = self._groups.get(by)
        if group is None:
            group = self._groups[by] = {}
            if len(self._groups) > MAX_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(by)
        return group


def _series(group: Group, metric: str) -> Windowed[Histogram]:
    series = group.get(metric)
    if series is None:
        series = group[metric] = Windowed(Histogram)
    return series


def _measured(record: RequestRecord, legs: Sequence[Leg]) -> tuple[tuple[str, float | None], ...]:
    """What counts as latency. A refusal is quick and would flatter; so would a call that generates
    nothing. One that never reached an instance tells how long it waited, and no more."""
    if not generates(record) or record.outcome is Outcome.REJECTED:
        return ()
    if record.path is Path.NONE:
        return (("queue", record.queued_ms),)
    where = phases(record, legs)
    return (
        ("ttft", record.ttft_ms),
        ("tpot", record.tpot_ms),
        ("e2e", record.e2e_ms),
        ("queue", record.queued_ms),
        ("prefill", where.prefill),
        ("transfer", where.transfer),
    )
