"""Goodput by objective and group over windows."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pdctl.control.goodput import GoodputBook
from pdctl.domain.goodput import Cause
from pdctl.domain.handoff import Outcome
from pdctl.domain.topology import SloSpec
from tests.domain.test_goodput import CHAT, handed
from tests.fakes.clock import VirtualClock
from tests.fakes.records import record


async def test_share_rate_and_causes_of_a_window() -> None:
    clock = VirtualClock(settle=0)
    book = GoodputBook(clock, lambda: (CHAT,))
    for _ in range(3):
        assert book.judge(handed()).slo_missed == ()
    assert book.judge(handed(prefill_ms=900.0)).slo_missed == (("chat", "prefill"),)
    await clock.advance(10.0)
    found = book.view("chat", "all", 60)
    assert (found.tally.met, found.tally.missed) == (3, {Cause.PREFILL: 1})
    assert found.tally.share == 0.75
    assert found.span_s == pytest.approx(10.0), "no more was looked at yet"
    assert found.rate == pytest.approx(0.3)
    for by in ("mode:pd", "pool:prefill", "pool:decode", "model:m"):
        assert book.view("chat", by, 60).tally == found.tally
    await clock.advance(600.0)
    assert book.view("chat", "all", 60).tally.total == 0
    assert book.view("chat", "all", None).tally.total == 4
    assert book.view("chat", "all", 60).span_s == pytest.approx(60.0, abs=10.0)


def test_modes_add_up_to_all_of_it() -> None:
    book, rng = GoodputBook(VirtualClock(), lambda: (CHAT, SloSpec("slow", ttft_ms=5e4))), Random(5)
    for number in range(300):
        book.judge(record(rng, number, 0.0))
    for slo in ("chat", "slow"):
        everyone = book.view(slo, "all", None).tally
        modes = [book.view(slo, by, None).tally for by in book.groups() if by.startswith("mode:")]
        assert sum(one.total for one in modes) == everyone.total > 200
        assert sum(one.met for one in modes) == everyone.met
    strict, loose = (book.view(slo, "all", None).tally for slo in ("chat", "slow"))
    assert strict.met <= loose.met


def test_what_generates_nothing_and_what_was_refused_is_not_counted() -> None:
    book = GoodputBook(VirtualClock(), lambda: (CHAT,))
    book.judge(handed(endpoint="/tokenize"))
    book.judge(handed(outcome=Outcome.REJECTED))
    assert book.view("chat", "all", None).tally.total == 0
    assert book.groups() == []


def test_objectives_change_while_it_counts() -> None:
    slos: list[SloSpec] = []
    book = GoodputBook(VirtualClock(), lambda: tuple(slos))
    book.judge(handed())
    slos.append(CHAT)
    book.judge(handed())
    assert book.view("chat", "all", None).tally.met == 1
    slos[0] = replace(CHAT, name="other")
    book.judge(handed())
    assert book.view("other", "all", None).tally.met == 1
