"""Comparisons of quantiles: right about as often as they claim, silent when there is too little."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain.compare import Found, compare, needed
from pdctl.domain.histogram import Histogram


def drawn(rng: Random, count: int, scale: float = 1.0) -> Histogram:
    made = Histogram()
    for _ in range(count):
        made.add(scale * rng.lognormvariate(4.0, 0.6))
    return made


def test_equal_ones_are_told_apart_by_chance_only_as_often_as_the_level_allows() -> None:
    rng, wrong = Random(1), 0
    for _ in range(200):
        found = compare(drawn(rng, 400), drawn(rng, 400), 0.9, rng)
        wrong += found.found in (Found.HIGHER, Found.LOWER)
    assert wrong <= 24, f"{wrong} of 200 at a level of 95 %"


@pytest.mark.parametrize("q", [0.5, 0.99])
def test_the_interval_covers_the_true_quantile(q: float) -> None:
    rng = Random(2)
    truth = drawn(rng, 200_000).quantile(q)
    assert truth is not None
    covered = 0
    for _ in range(100):
        sample = drawn(rng, 1500)
        one = compare(sample, sample, q, rng).first
        assert one.low is not None
        assert one.high is not None
        covered += one.low * 0.99 <= truth <= one.high * 1.01
    assert covered >= 88, f"{covered} of 100"


def test_a_real_difference_is_found_with_its_direction() -> None:
    rng = Random(3)
    slow = compare(drawn(rng, 2000), drawn(rng, 2000, 2.0), 0.9, rng)
    assert slow.found is Found.HIGHER
    assert slow.low is not None
    assert slow.value is not None
    assert 0 < slow.low < slow.value
    quick = compare(drawn(rng, 2000, 2.0), drawn(rng, 2000), 0.9, rng)
    assert quick.found is Found.LOWER


def test_too_few_values_are_said() -> None:
    rng = Random(4)
    assert needed(0.99) == 500
    assert needed(0.5) == 10
    few = compare(drawn(rng, 499), drawn(rng, 5000), 0.99, rng)
    assert few.found is Found.TOO_FEW
    assert few.first.high is None
    assert few.second.high is not None
    nothing = compare(Histogram(), Histogram(), 0.5, rng)
    assert (nothing.found, nothing.value) == (Found.TOO_FEW, None)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.9]))
def test_the_same_seed_gives_the_same_answer_and_turning_it_round_turns_the_sign(
    seed: int, q: float
) -> None:
    made = Random(seed)
    a, b = drawn(made, 300), drawn(made, 300, 1.3)
    one, again = compare(a, b, q, Random(9)), compare(a, b, q, Random(9))
    assert one == again
    other = compare(b, a, q, Random(9))
    assert one.value is not None
    assert other.value == pytest.approx(-one.value)
