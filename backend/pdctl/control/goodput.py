"""Goodput over sliding windows: requests within each named objective, by group.

Law: requests are judged once, when they end, by the objectives that are wanted then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pdctl.control.groups import PoolOf, generates, groups_of, listed, pool_by_name
from pdctl.control.windows import SLICE_S, Windowed, slice_s
from pdctl.domain.goodput import Tally, verdict
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.phases import final_legs
from pdctl.domain.topology import SloSpec
from pdctl.ports import Clock

MAX_SERIES = 1024
"""Objectives x groups held at most: those that came later are not counted."""
_KINDS = ("all", "mode", "pool", "model")


@dataclass(frozen=True, slots=True)
class Goodput:
    """One objective of one group over one window."""

    slo: str
    by: str
    window_s: int | None
    """None: since the start."""
    span_s: float
    """How long was really looked at: the window, or less since the start."""
    tally: Tally

    @property
    def rate(self) -> float | None:
        """Requests per second that met it, the goodput itself; None before a second has passed."""
        return self.tally.met / self.span_s if self.span_s >= 1 else None


class GoodputBook:
    """Every objective's counts. One writer (the intake)."""

    def __init__(
        self,
        clock: Clock,
        slos: Callable[[], tuple[SloSpec, ...]],
        pool_of: PoolOf = pool_by_name,
    ) -> None:
        self._clock, self._slos, self._pool_of = clock, slos, pool_of
        self._began = clock.monotonic()
        self._series: dict[tuple[str, str], Windowed[Tally]] = {}

    def judge(self, record: RequestRecord) -> RequestRecord:
        """Count `record`; it comes back with the objectives that it missed, and by what."""
        slos = self._slos()
        if not slos or not generates(record):
            return record
        legs = final_legs(record)
        verdicts = [(slo.name, verdict(record, slo, legs)) for slo in slos]
        index = int(self._clock.monotonic() // SLICE_S)
        groups = groups_of(record, legs, self._pool_of)
        main = [by for by in groups if by.partition(":")[0] in _KINDS]
        for name, found in verdicts:
            if found is not None:
                for by in main:
                    if (series := self._open(name, by)) is not None:
                        series.at(index).add(found)
        missed = tuple(
            (name, found.cause.value) for name, found in verdicts if found and found.cause
        )
        return replace(record, slo_missed=missed) if missed else record

    def view(self, slo: str, by: str, window_s: int | None) -> Goodput:
        """One objective of one group; empty when nothing is known."""
        now = self._clock.monotonic()
        series = self._series.get((slo, by))
        tally = Tally() if series is None else series.view(now, window_s)
        return Goodput(slo, by, window_s, self._span(now, window_s), tally)

    def groups(self) -> list[str]:
        """Every `by` that has data."""
        return listed({by for _, by in self._series})

    def _span(self, now: float, window_s: int | None) -> float:
        """Seconds from the beginning of the window's first slice, or from ours."""
        if window_s is None:
            return now - self._began
        width = slice_s(window_s)
        return now - max(self._began, (now - window_s) // width * width)

    def _open(self, slo: str, by: str) -> Windowed[Tally] | None:
        series = self._series.get((slo, by))
        if series is None and len(self._series) < MAX_SERIES:
            series = self._series[slo, by] = Windowed(Tally)
        return series
