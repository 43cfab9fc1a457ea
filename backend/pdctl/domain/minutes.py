"""Histograms of one minute as few bytes: pure. What is packed is read by every later pdctl.

Each metric is its largest value and then, bucket by bucket, the step from the bucket before and
the count; numbers of a minute are small, and deflate makes a byte or two of each bucket.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pdctl.domain.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Minute:
    """What one group counted in one minute."""

    at: float
    """Wall time (UTC seconds) of its beginning."""
    by: str
    counts: Mapping[str, Histogram]
    """By metric; nothing empty."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that an operator named."""

    name: str
    at: float
    """Wall time, UTC seconds."""
    actor: str


def packed(counts: Mapping[str, Histogram]) -> bytes:
    """Histograms by metric as bytes."""
    flat = {metric: [one.max_ms, *_steps(one)] for metric, one in counts.items()}
    return zlib.compress(json.dumps(flat, separators=(",", ":")).encode(), 6)


def unpacked(data: bytes) -> dict[str, Histogram]:
    """The histograms that `packed` wrote; ValueError for anything else."""
    try:
        flat = json.loads(zlib.decompress(data))
        return {str(metric): _histogram(numbers) for metric, numbers in flat.items()}
    except (zlib.error, TypeError, AttributeError, IndexError) as error:
        raise ValueError("not a packed minute") from error


def _steps(histogram: Histogram) -> list[int]:
    found, before = [], 0
    for index in sorted(histogram.counts):
        found += [index - before, histogram.counts[index]]
        before = index
    return found


def _histogram(numbers: list[Any]) -> Histogram:
    most, *steps = numbers
    counts = dict(zip(accumulate(steps[::2]), steps[1::2], strict=True))
    return Histogram(counts, sum(counts.values()), most)
