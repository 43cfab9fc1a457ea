"""Deadlines, alarms and keyed jobs, by a clock that a test turns."""

from __future__ import annotations

import asyncio

import pytest

from pdctl import tasks
from pdctl.control.alarm import Alarm
from pdctl.control.deadline import within
from pdctl.control.jobs import Jobs
from pdctl.control.watching import pulse
from pdctl.domain.instance import EngineStats, Vitals
from tests.fakes.clock import VirtualClock


async def test_a_deadline_ends_the_work_it_waited_for() -> None:
    clock, ended = VirtualClock(), []

    async def slow() -> None:
        try:
            await clock.sleep(60)
        finally:
            ended.append(clock.monotonic())

    waiting = tasks.spawn(_error(within(clock, 5, slow(), name="slow thing")), name="test")
    await clock.advance(4.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert str(await waiting) == "slow thing did not end within 5 s"
    assert ended == [pytest.approx(1005)]
    assert clock.sleepers == 0


async def test_results_and_errors_come_through() -> None:
    clock = VirtualClock()

    async def quick(error: Exception | None) -> int:
        if error is not None:
            raise error
        return 7

    assert await within(clock, 5, quick(None), name="x") == 7
    with pytest.raises(LookupError, match="gone"):
        await within(clock, 5, quick(LookupError("gone")), name="x")
    assert clock.sleepers == 0


async def _error(work: object) -> BaseException | None:
    try:
        await work  # type: ignore[misc]
    except TimeoutError as error:
        return error
    return None


async def test_an_alarm_keeps_a_ring_and_rests_until_its_time() -> None:
    clock = VirtualClock()
    alarm = Alarm(clock)
    alarm.ring()
    await alarm.rest(None)
    resting = tasks.spawn(alarm.rest(clock.monotonic() + 10), name="rest")
    await clock.advance(9)
    assert not resting.done()
    await clock.advance(1)
    assert resting.done()
    resting = tasks.spawn(alarm.rest(None), name="rest")
    await clock.advance(1000)
    assert not resting.done()
    alarm.ring()
    await clock.settle()
    assert resting.done()


async def test_a_key_that_runs_is_refused_and_its_end_wakes() -> None:
    clock, woken = VirtualClock(), asyncio.Event()
    jobs = Jobs(clock, woken.set)

    async def work() -> None:
        await clock.sleep(5)

    assert jobs.start("decode-0", work)
    assert not jobs.start("decode-0", work)
    assert jobs.start("decode-1", work, quiet=True)
    jobs.cancel("decode-1")
    await clock.settle()
    assert not jobs.busy("decode-1")
    assert not woken.is_set()
    await clock.advance(5)
    assert woken.is_set()
    assert jobs.start("decode-0", work)
    await jobs.settle()
    assert not jobs.busy("decode-0")


async def test_work_that_raises_holds_its_key_for_a_while() -> None:
    clock = VirtualClock()
    jobs = Jobs(clock, lambda: None)

    async def defect() -> None:
        raise RuntimeError("a defect")

    jobs.start("x", defect)
    await clock.advance(0.9)
    assert jobs.busy("x")
    await clock.advance(0.2)
    assert not jobs.busy("x")


def test_a_pulse_is_counters_that_move() -> None:
    idle = EngineStats(at=0, running=0, iterations=5)
    busy = EngineStats(at=0, running=2, iterations=5)
    moving = EngineStats(at=0, running=2, iterations=6)
    first = pulse(Vitals(), None, idle, 10.0)
    assert (first.scraped_at, first.busy_at, first.stalled_since) == (10.0, 10.0, None)
    at_rest = pulse(first, idle, idle, 12.0)
    assert (at_rest.busy_at, at_rest.stalled_since) == (10.0, None)
    stuck = pulse(at_rest, idle, busy, 14.0)
    assert (stuck.busy_at, stuck.stalled_since) == (14.0, 12.0)
    longer = pulse(stuck, busy, busy, 16.0)
    assert longer.stalled_since == 12.0
    assert pulse(longer, busy, moving, 18.0).stalled_since is None
    assert pulse(longer, busy, idle, 18.0).stalled_since is None
    silent = EngineStats(at=0, running=2, iterations=0)
    assert pulse(first, silent, silent, 18.0).stalled_since is None, "it counts no iterations"
