"""Merging is adding counts, quantiles are within a percent, and an unknown maximum is unknown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.histogram import Histogram, bounds, bucket

values = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60)


def of(numbers: list[float]) -> Histogram:
    made = Histogram()
    for number in numbers:
        made.add(number)
    return made


@given(values, st.floats(0, 1))
def test_quantiles_are_within_a_percent_of_the_exact_ones(numbers: list[float], q: float) -> None:
    exact = sorted(numbers)[max(1, math.ceil(q * len(numbers))) - 1]
    assert of(numbers).quantile(q) == pytest.approx(exact, rel=0.01)


@given(values, values)
def test_merging_equals_counting_together(left: list[float], right: list[float]) -> None:
    merged = of(left)
    merged.merge(of(right))
    together = of(left + right)
    assert merged == together
    assert merged.max_ms == max(left + right)


@given(values)
def test_no_quantile_exceeds_the_known_maximum(numbers: list[float]) -> None:
    assert (of(numbers).quantile(1.0) or 0) <= max(numbers)


def test_bare_counts_make_the_maximum_unknown() -> None:
    made = of([1.0, 2.0])
    made.add_buckets([(bucket(50.0), 3)], 3)
    assert (made.total, made.max_ms) == (5, None)
    known = of([9.0])
    known.merge(made)
    assert known.max_ms is None
    made.add(70.0)
    assert made.max_ms is None


def test_empty_is_empty() -> None:
    made = Histogram()
    made.merge(Histogram())
    assert (made.quantile(0.5), made.max_ms, list(made.rows())) == (None, None, [])


@given(st.floats(0.02, 1e7))
def test_a_value_lies_in_its_bucket(ms: float) -> None:
    low, high = bounds(bucket(ms))
    assert low * (1 - 1e-9) <= ms <= high * (1 + 1e-9)
