"""The intake under bad weather: a failing store, a failing listener, a flood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from pdctl.control import intake as module
from pdctl.control.feed import Feed
from pdctl.control.intake import MANY, Intake
from pdctl.control.latency import LatencyBook
from pdctl.control.request_log import RequestLog
from pdctl.domain.events import Event, EventKind
from pdctl.domain.handoff import Load, RequestRecord, RouterEvent, Suspect
from pdctl.tasks import settle, spawn
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.records import record
from tests.fakes.waiting import until


@dataclass
class Wire:
    """A data plane that tells what the test puts in."""

    queue: asyncio.Queue[RouterEvent] = field(default_factory=asyncio.Queue)

    async def push(self, table: object) -> None:
        """Unused."""

    async def events(self) -> AsyncIterator[RouterEvent]:
        while True:
            yield await self.queue.get()


@dataclass
class Scene:
    wire: Wire
    feed: Feed
    store: MemoryStore
    requests: RequestLog
    latency: LatencyBook
    intake: Intake
    loads: list[Load]
    suspects: list[Suspect]

    def of(self, kind: EventKind) -> list[Event]:
        return [event for event in self.feed.recent(10_000) if event.kind is kind]


@asynccontextmanager
async def running(on_load: Callable[[Load], None] | None = None) -> AsyncIterator[Scene]:
    clock, wire, store = VirtualClock(), Wire(), MemoryStore()
    feed, requests, latency = Feed(clock), RequestLog(), LatencyBook(clock)
    loads: list[Load] = []
    suspects: list[Suspect] = []
    intake = Intake(
        data_plane=wire, requests=requests, latency=latency, feed=feed, store=store,
        on_load=on_load or loads.append, on_suspect=suspects.append,
        on_record=lambda _: None,
    )  # fmt: skip
    task = spawn(intake.run(), name="intake-under-test")
    try:
        yield Scene(wire, feed, store, requests, latency, intake, loads, suspects)
    finally:
        await settle(task)


async def test_what_a_client_made_long_is_cut_before_it_is_kept() -> None:
    async with running() as scene:
        (one,) = some(1)
        hostile = replace(one, model="m" * 10_000_000, error="The model `" + "m" * 10_000_000)
        scene.wire.queue.put_nowait(hostile)
        await until(lambda: scene.requests.get(one.id) is not None)
        kept = scene.requests.get(one.id)
        assert kept is not None
        assert len(kept.model) + len(kept.error) < 10_000
        assert kept == replace(one, model=kept.model, error=kept.error)


def some(count: int) -> list[RequestRecord]:
    rng = Random(5)
    return [record(rng, number, 100.0 + number) for number in range(count)]


async def test_a_record_reaches_everything() -> None:
    one, *_ = some(1)
    async with running() as scene:
        scene.wire.queue.put_nowait(one)
        await until(lambda: scene.store.records == [one])
        assert scene.requests.get(one.id) is one
        assert scene.latency.view("e2e", "all", 60).total == 1
        (told,) = scene.of(EventKind.REQUEST_FINISHED)
        assert (told.subject, told.data["outcome"]) == (one.id, one.outcome.value)


async def test_load_and_suspicion_go_to_their_listeners() -> None:
    async with running() as scene:
        scene.wire.queue.put_nowait(Load(4, {"decode-0": 2}))
        scene.wire.queue.put_nowait(Suspect("decode-0", 1, "refused"))
        await until(lambda: len(scene.suspects) == 1)
        assert [load.table_seq for load in scene.loads] == [4]


async def test_a_listener_that_fails_stops_nothing() -> None:
    def fail(load: Load) -> None:
        raise RuntimeError(f"cannot take {load}")

    async with running(on_load=fail) as scene:
        scene.wire.queue.put_nowait(Load(1))
        scene.wire.queue.put_nowait(some(1)[0])
        await until(lambda: len(scene.requests) == 1)


async def test_a_failing_store_is_said_once_and_loses_nothing_when_it_works_again() -> None:
    records = some(40)
    async with running() as scene:
        scene.store.failing = True
        for one in records:
            scene.wire.queue.put_nowait(one)
        await until(lambda: len(scene.of(EventKind.NOTICE)) == 1)
        assert len(scene.requests) == 40
        scene.store.failing = False
        await until(lambda: scene.store.records == records)
        await until(lambda: len(scene.of(EventKind.NOTICE)) == 2)
        assert [event.data["level"] for event in scene.of(EventKind.NOTICE)] == ["error", "info"]
        assert scene.intake.dropped == 0


async def test_a_store_that_never_works_costs_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 10)
    records = some(25)
    async with running() as scene:
        scene.store.failing = True
        for one in records:
            scene.wire.queue.put_nowait(one)
        await until(lambda: len(scene.requests) == 25)
        assert scene.intake.dropped == 15
        scene.store.failing = False
        await until(lambda: scene.store.records == records[15:])


async def test_a_flood_is_told_as_counts_and_stored_whole() -> None:
    records = some(900)
    async with running() as scene:
        for one in records:
            scene.wire.queue.put_nowait(one)
        await until(lambda: scene.store.records == records)
        await until(lambda: any(e.subject == MANY for e in scene.of(EventKind.REQUEST_FINISHED)))
        told = scene.of(EventKind.REQUEST_FINISHED)
        single = [event for event in told if event.subject != MANY]
        many = [event for event in told if event.subject == MANY]
        assert len(single) + sum(event.data["count"] for event in many) == 900
        assert len(single) < 200
        assert all(sum(event.data["by"].values()) == event.data["count"] for event in many)


async def test_what_is_pending_at_the_end_is_stored() -> None:
    records = some(450)
    async with running() as scene:
        for one in records:
            scene.wire.queue.put_nowait(one)
        await until(lambda: len(scene.requests) == 450)
    assert scene.store.records == records
