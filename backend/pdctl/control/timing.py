"""Learns from the feed how long this fleet's own starts, warm-ups, probes, drains and stops take.

Law: only what went its whole way counts; a start that failed says nothing about one that works.
"""

from __future__ import annotations

from collections.abc import Mapping

from pdctl.domain.events import Event, EventKind
from pdctl.domain.lifecycle import Phase
from pdctl.domain.pace import Pace, Span

SHORTEST_DRAIN_S = 1.0
"""A drain that is over sooner had no streams to wait for."""
_WAYS: dict[tuple[str, str], Span] = {
    ("launched", Phase.WARMING): Span.START,
    (Phase.WARMING, Phase.PROBING): Span.WARM,
    (Phase.DRAINING, Phase.STOPPING): Span.DRAIN,
    (Phase.STOPPING, Phase.STOPPED): Span.STOP,
}
"""From the first sight of one phase to the first sight of another."""
_BROKEN = frozenset({Phase.BACKOFF, Phase.FAILED, Phase.UNKNOWN})


class Timing:
    """Reads facts in their order; `pace` is what they add up to."""

    def __init__(self) -> None:
        self.pace = Pace()
        self._since: dict[str, dict[str, float]] = {}
        self._probes: dict[str, float] = {}

    def learn(self, event: Event, waits_s: Mapping[str, float]) -> None:
        """Take one fact; `waits_s` is how long the drains of each pool wait for leases alone."""
        if event.kind is EventKind.INSTANCE_CHANGED:
            self._instance(event, waits_s)
        elif event.kind is EventKind.PAIR_CHANGED:
            self._pair(event)

    def _instance(self, event: Event, waits_s: Mapping[str, float]) -> None:
        phase, pool = event.data.get("phase"), str(event.data.get("pool", ""))
        since = self._since.setdefault(event.subject, {})
        if phase is None or phase in _BROKEN:
            self._since.pop(event.subject)
            return
        if phase in (Phase.PENDING, Phase.STARTING):
            since.setdefault("launched", event.at)
        if phase in since:
            return  # a message changed, the phase did not
        for (begin, end), span in _WAYS.items():
            if phase == end and begin in since:
                self._add(pool, span, event.at - since.pop(begin), waits_s)
        since[phase] = event.at
        if phase in (Phase.READY, Phase.STOPPED):
            self._since[event.subject] = {}

    def _add(self, pool: str, span: Span, seconds: float, waits_s: Mapping[str, float]) -> None:
        if span is Span.DRAIN:
            seconds -= waits_s.get(pool, 0.0)
            if seconds < SHORTEST_DRAIN_S:
                return
        self.pace.add(pool, span, seconds)

    def _pair(self, event: Event) -> None:
        state = event.data.get("state")
        began = self._probes.pop(event.subject, None)
        if state == "probing":
            self._probes[event.subject] = event.at
        elif state == "ok" and began is not None:
            decode = event.subject.partition(">")[2]
            self.pace.add(decode.rpartition("-")[0], Span.PROBE, event.at - began)
