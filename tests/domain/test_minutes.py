"""A packed minute comes back whole, and it is small."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.histogram import Histogram
from pdctl.domain.minutes import packed, unpacked

VALUES = st.lists(st.floats(0.0, 1e6, allow_nan=False), min_size=1, max_size=80)


def made(values: list[float]) -> Histogram:
    found = Histogram()
    for value in values:
        found.add(value)
    return found


@given(st.dictionaries(st.sampled_from(["ttft", "itl", "e2e"]), VALUES))
def test_what_is_packed_comes_back(values: dict[str, list[float]]) -> None:
    counts = {metric: made(some) for metric, some in values.items()}
    assert unpacked(packed(counts)) == counts


def test_a_maximum_that_is_unknown_stays_unknown() -> None:
    gaps = Histogram()
    gaps.add_buckets([(3, 2), (900, 1)], 3)
    assert unpacked(packed({"itl": gaps})) == {"itl": gaps}


@pytest.mark.parametrize("data", [b"", b"x", packed({})[:-1]])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="packed minute"):
        unpacked(data)


def test_a_busy_minute_of_one_group_takes_about_a_kilobyte() -> None:
    rng = Random(4)
    counts = {
        metric: made([rng.lognormvariate(4, 0.8) for _ in range(3000)])
        for metric in ("ttft", "tpot", "itl", "e2e", "queue", "prefill", "transfer")
    }
    assert len(packed(counts)) < 4096
