"""Log-linear latency histogram: mergeable by adding counts, never by averaging percentiles.

Buckets grow by a fixed ratio of 1.02 from 0.01 ms up, so a value read back from its bucket's
geometric middle is within 1 % of the true one (the idea of DDSketch, Masson et al., VLDB 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

GROWTH = 1.02
FLOOR_MS = 0.01
_LOG = math.log(GROWTH)


def bucket(ms: float) -> int:
    """Index of the bucket that holds `ms`; everything at or under FLOOR_MS is bucket 0."""
    return 0 if ms <= FLOOR_MS else 1 + int(math.log(ms / FLOOR_MS) / _LOG)


def bounds(index: int) -> tuple[float, float]:
    """Lower and upper edge of a bucket, milliseconds."""
    if index <= 0:
        return (0.0, FLOOR_MS)
    return (FLOOR_MS * GROWTH ** (index - 1), FLOOR_MS * GROWTH**index)


@dataclass(slots=True)
class Histogram:
    """Counts by bucket. The one mutable value of the core: an accumulator owned by one writer."""

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    max_ms: float | None = None
    """Largest value; unknown (None) as soon as bare bucket counts were taken in."""

    def add(self, ms: float) -> None:
        """Count one value."""
        self.add_known(ms, bucket(ms))

    def add_known(self, ms: float, index: int) -> None:
        """Count one value whose bucket is known already."""
        if not self.total or (self.max_ms is not None and ms > self.max_ms):
            self.max_ms = ms
        self.counts[index] = self.counts.get(index, 0) + 1
        self.total += 1

    def add_buckets(self, rows: Iterable[tuple[int, int]], total: int) -> None:
        """Count many at once: (bucket, count) of which `total` is the sum."""
        self.max_ms = None
        counts = self.counts
        for index, count in rows:
            counts[index] = counts.get(index, 0) + count
        self.total += total

    def merge(self, other: Histogram) -> None:
        """Add all that `other` counted."""
        if not other.total:
            return
        if not self.total:
            self.max_ms = other.max_ms
        elif self.max_ms is not None:
            known = other.max_ms is not None
            self.max_ms = max(self.max_ms, other.max_ms or 0.0) if known else None
        counts = self.counts
        for index, count in other.counts.items():
            counts[index] = counts.get(index, 0) + count
        self.total += other.total

    def quantile(self, q: float) -> float | None:
        """The q-quantile (nearest rank) in milliseconds, None when empty; within 1 %."""
        if not self.total:
            return None
        rank, seen = max(1, math.ceil(q * self.total)), 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen >= rank:
                low, high = bounds(index)
                middle = math.sqrt(low * high) if low else high
                # A bucket's middle may lie above the largest value; p99 > max would be a lie.
                return middle if self.max_ms is None else min(middle, self.max_ms)
        return None

    def rows(self) -> Iterable[tuple[float, float, int]]:
        """(lower ms, upper ms, count) of the non-empty buckets, ascending."""
        for index in sorted(self.counts):
            yield (*bounds(index), self.counts[index])
