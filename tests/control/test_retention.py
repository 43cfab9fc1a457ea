"""What is kept of requests: what went wrong always, the rest by a share; and for how long."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pdctl.control.retention import STEP, Retention
from pdctl.domain.handoff import Outcome, RequestRecord
from pdctl.domain.keeping import Keeping
from pdctl.tasks import settle, spawn
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.records import record


def good(count: int, at: float = 1e9) -> list[RequestRecord]:
    rng = Random(3)
    made = (record(rng, number, at + number) for number in range(count))
    return [replace(one, outcome=Outcome.OK, retries=0, e2e_ms=50.0) for one in made]


def test_a_share_of_what_went_well_is_kept_and_all_that_did_not() -> None:
    keeping, every = Keeping(sample=0.1), good(5000)
    assert 400 < sum(keeping.wanted(one) for one in every) < 600
    one = next(one for one in every if not keeping.wanted(one))
    for odd in (
        replace(one, outcome=Outcome.TRUNCATED), replace(one, retries=1),
        replace(one, slo_missed=(("chat", "queue"),)), replace(one, e2e_ms=keeping.slow_ms),
    ):  # fmt: skip
        assert keeping.wanted(odd), odd
    assert not any(Keeping(sample=0.0).wanted(one) for one in every)
    assert all(Keeping().wanted(one) for one in every)


async def test_each_bound_drops_the_oldest_and_is_counted_by_name() -> None:
    clock, store = VirtualClock(), MemoryStore()
    store.records = good(4 * STEP, clock.now() - 4 * STEP)
    newest = store.records[-1]
    keeping = Keeping(age_s=3 * STEP, rows=2 * STEP, size=10**9)
    retention = Retention(keeping, store, clock)
    await _prune(retention, clock)
    assert retention.dropped["age"]
    assert retention.dropped["count"]
    assert sum(retention.dropped.values()) == 2 * STEP
    assert len(store.records) == 2 * STEP
    smaller = Retention(replace(keeping, size=STEP * 1000), store, clock)
    await _prune(smaller, clock)
    assert smaller.dropped["size"] == STEP
    assert store.records[-1] == newest


async def test_a_store_that_fails_is_asked_again() -> None:
    clock, store = VirtualClock(), MemoryStore()
    store.records = good(20, clock.now())
    retention = Retention(Keeping(rows=5), store, clock)
    task = spawn(retention.run(), name="retention-under-test")
    try:
        await clock.settle()
        store.failing = True
        await clock.advance(40)
        store.failing = False
        assert len(store.records) == 20
        await clock.advance(40)
        assert len(store.records) == 5
    finally:
        await settle(task)


async def _prune(retention: Retention, clock: VirtualClock) -> None:
    task = spawn(retention.prune(), name="prune-under-test")
    while not task.done():
        await clock.advance(1)
    await task
