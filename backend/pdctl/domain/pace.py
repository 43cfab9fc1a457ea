"""How long things take in this fleet, by its own history: pure.

Law: a figure says how often it was seen; one that was never seen is an assumption, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

KEEP = 20
"""Newest samples kept of each kind and pool."""


class Span(StrEnum):
    """What is timed."""

    START = "start"
    """From the launch to an answering engine."""
    WARM = "warm"
    PROBE = "probe"
    """One handoff of a pair."""
    DRAIN = "drain"
    """From out of rotation to the end of the last open stream."""
    STOP = "stop"
    """From SIGTERM to the end of the process."""


ASSUMED_S = {Span.START: 90.0, Span.WARM: 2.0, Span.PROBE: 1.0, Span.DRAIN: 10.0, Span.STOP: 5.0}
"""Seconds, for what was never seen: a mid-sized model on one GPU."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An expected duration."""

    seconds: float
    samples: int = 0
    """How often it was seen; 0: assumed."""


@dataclass(slots=True)
class Pace:
    """Durations seen, in seconds, by pool and span. Pairs count for the pool of their decode."""

    seen: dict[tuple[str, Span], list[float]] = field(default_factory=dict)

    def add(self, pool: str, span: Span, seconds: float) -> None:
        """One more."""
        samples = self.seen.setdefault((pool, span), [])
        samples.append(max(0.0, seconds))
        del samples[:-KEEP]

    def copy(self) -> Pace:
        """As it is now; the original may go on learning."""
        return Pace({key: list(samples) for key, samples in self.seen.items()})

    def of(self, pool: str, span: Span) -> Estimate:
        """What to expect: the median of this pool, else of every pool, else an assumption."""
        samples = self.seen.get((pool, span)) or _all(self.seen, span)
        if not samples:
            return Estimate(ASSUMED_S[span])
        return Estimate(median(samples), len(samples))


def _all(seen: Mapping[tuple[str, Span], list[float]], span: Span) -> list[float]:
    return [sample for (_, kind), samples in seen.items() if kind is span for sample in samples]
