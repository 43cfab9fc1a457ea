"""What is counted of requests and of engines' counters, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pdctl.control.signals.tally import Tally
from pdctl.domain.handoff import Outcome, Path, RequestRecord
from pdctl.domain.instance import EngineStats, Instance
from pdctl.domain.signals.readings import Growth
from pdctl.domain.topology import SloSpec
from tests.domain.signals.test_readings import instance
from tests.fakes.clock import VirtualClock

CHAT = SloSpec("chat", ttft_ms=100)


def done(**fields: Any) -> RequestRecord:
    """A request that was handed over and met its objective."""
    record = RequestRecord(
        id="r", received_at=0.0, endpoint="/v1/completions", model="m", stream=True, mode="pd",
        path=Path.PD, path_reason="", outcome=Outcome.OK, status=200, ttft_ms=50.0,
    )  # fmt: skip
    return replace(record, **fields)


async def test_requests_count_for_five_minutes() -> None:
    clock = VirtualClock()
    tally = Tally(clock)
    for _ in range(10):
        tally.add(done(), [CHAT])
    tally.add(done(outcome=Outcome.TIMEOUT, status=504), [CHAT])
    tally.add(done(outcome=Outcome.REJECTED, status=400), [CHAT])
    tally.add(done(endpoint="/tokenize"), [CHAT])
    traffic = tally.traffic([CHAT], 0.99)
    assert (traffic.requests, traffic.failed) == (11, 1)
    await clock.advance(320)
    traffic = tally.traffic([CHAT], 0.99)
    assert (traffic.requests, traffic.failed) == (0, 0)
    assert traffic.burns == {"chat": (0.0, 0.0)}


async def test_a_budget_burns_over_two_windows() -> None:
    clock = VirtualClock()
    tally = Tally(clock)
    for _ in range(90):
        tally.add(done(), [CHAT])
    await clock.advance(600)
    assert tally.traffic([CHAT], 0.99).burns["chat"] == (0.0, 0.0)
    for _ in range(9):
        tally.add(done(ttft_ms=900.0), [CHAT])
    assert tally.traffic([CHAT], 0.99).burns["chat"] is None  # too few to tell
    tally.add(done(ttft_ms=900.0), [CHAT])
    short, long = tally.traffic([CHAT], 0.99).burns["chat"] or (0, 0)
    assert round(short) == 100
    assert round(long) == 10
    assert tally.traffic([SloSpec("new", ttft_ms=1)], 0.99).burns == {"new": (0.0, 0.0)}


def scraped(one: Instance, **counters: Any) -> Instance:
    return replace(one, stats=EngineStats(at=0.0, **counters))


async def test_counters_grow_within_one_start() -> None:
    clock = VirtualClock()
    tally, one = Tally(clock), instance("decode-0", nonce="first")
    assert tally.growth([scraped(one)]) == {}
    tally.sample([scraped(one, preemptions=3.0)])
    await clock.advance(60)
    later = scraped(one, preemptions=7.0)
    tally.sample([later])
    assert tally.growth([later]) == {"decode-0": Growth(preempted=4.0)}
    await clock.advance(400)
    tally.sample([later])
    assert tally.growth([later])["decode-0"].preempted == 0.0
    anew = replace(later, nonce="second")
    tally.sample([anew])
    assert tally.growth([anew])["decode-0"].preempted == 0.0
    assert tally.growth([later]) == {}
