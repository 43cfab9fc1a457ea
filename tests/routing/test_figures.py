"""Rates: unknown until measured, and of late rather than of ever."""

from __future__ import annotations

import pytest

from pdctl.routing.figures import Figures, Rate


def test_nothing_measured_is_unknown() -> None:
    rate = Rate()
    assert rate.value is None
    rate.learn(0, 1.0)
    assert rate.value is None
    assert Figures().step_s is None


def test_a_rate_follows_what_happens() -> None:
    rate = Rate()
    for _ in range(50):
        rate.learn(1000, 1.0)
    assert rate.value == pytest.approx(1000)
    for _ in range(100):
        rate.learn(1000, 2.0)
    assert rate.value == pytest.approx(500, rel=0.02)


def test_a_short_leg_hardly_moves_it() -> None:
    rate = Rate()
    rate.learn(10_000, 1.0)
    rate.learn(1, 0.05)
    assert rate.value == pytest.approx(9500, rel=0.05)


def test_waiting_behind_another_prompt_is_no_slowness() -> None:
    figures = Figures()
    figures.prefilled(1000, sent=0.0, done=1.0)
    figures.prefilled(1000, sent=0.0, done=2.0)
    figures.prefilled(1000, sent=0.5, done=3.0)
    assert figures.prefill.value == pytest.approx(1000)
