"""Two latency distributions side by side: by how much a quantile differs, and how sure that is.

The interval comes from resampling: the k-th smallest of n values lies at a Beta(k, n - k + 1)
distributed share of what they were drawn from (David and Nagaraja, Order Statistics, 2003, 2.2;
Maritz and Jarrett, JASA 1978, for the bootstrap of a quantile). So each draw is one share for each
side, looked up in its histogram; the middle 95 % of the draws' differences is the interval.

Law: pure, and the same for the same seed. It assumes that values are independent: gaps between
tokens of one stream are not, so the interval of itl is narrower than the truth.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Protocol

from pdctl.domain.histogram import Histogram

LEVEL = 0.95
DRAWS = 1000
BEYOND = 5
"""Values that must be expected on either side of a quantile: fewer say nothing of it."""


class Chance(Protocol):
    """What draws lots; `random.Random` does."""

    def betavariate(self, alpha: float, beta: float) -> float:
        """A share from a beta distribution."""
        ...


class Found(StrEnum):
    """What a comparison found."""

    HIGHER = "higher"
    """The second is higher: all of the interval is above 0."""
    LOWER = "lower"
    UNCLEAR = "unclear"
    """The interval holds 0: a difference cannot be told from chance."""
    TOO_FEW = "too_few"
    """Too few values for this quantile."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One quantile and its interval, ms."""

    count: int
    value: float | None
    low: float | None = None
    high: float | None = None
    """None: too few values."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The second minus the first, ms."""

    first: Estimate
    second: Estimate
    found: Found
    value: float | None = None
    low: float | None = None
    high: float | None = None


def needed(q: float) -> int:
    """Values that are needed to speak of the q-quantile."""
    return math.ceil(round(BEYOND / min(q, 1 - q), 9))


def compare(first: Histogram, second: Histogram, q: float, rng: Chance) -> Difference:
    """The q-quantile of both, and by how much it differs."""
    drawn, other = _draws(first, q, rng), _draws(second, q, rng)
    a, b = _estimate(first, q, drawn), _estimate(second, q, other)
    value = None if a.value is None or b.value is None else b.value - a.value
    if not (drawn and other):
        return Difference(a, b, Found.TOO_FEW, value)
    low, high = _middle([two - one for one, two in zip(drawn, other, strict=True)])
    found = Found.HIGHER if low > 0 else Found.LOWER if high < 0 else Found.UNCLEAR
    return Difference(a, b, found, value, low, high)


def _estimate(histogram: Histogram, q: float, drawn: Sequence[float]) -> Estimate:
    low, high = _middle(drawn) if drawn else (None, None)
    return Estimate(histogram.total, histogram.quantile(q), low, high)


def _draws(histogram: Histogram, q: float, rng: Chance) -> list[float]:
    """The quantile in resamples of the same size; nothing when there are too few values."""
    total = histogram.total
    if total < needed(q):
        return []
    rows = list(histogram.rows())
    reached = list(accumulate(count for _, _, count in rows))
    middles = [math.sqrt(low * high) if low else high for low, high, _ in rows]
    rank = max(1, math.ceil(q * total))
    shares = (rng.betavariate(rank, total - rank + 1) for _ in range(DRAWS))
    return [middles[bisect_left(reached, max(1, math.ceil(share * total)))] for share in shares]


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The interval that leaves as many on either side."""
    ordered, cut = sorted(values), round(len(values) * (1 - LEVEL) / 2)
    return ordered[cut], ordered[-cut - 1]
