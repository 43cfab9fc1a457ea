"""Comparisons, windows of the past and marks over the API."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.control.test_latency import finished
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Failed, NotFound
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Path


async def test_two_modes_side_by_side(client: AdminClient, world: World) -> None:
    for number in range(600):
        world.latency.add(finished(100.0 + number % 50, Path.CHUNKED))
        world.latency.add(finished(300.0 + number % 50, Path.PD, model="other"))
    page = await client.compare_latency("mode:chunked@60", "model:other@60", ["e2e"], [0.5])
    (one,) = page.items
    assert (page.a.by, page.b.window_s, page.level) == ("mode:chunked", 60, 0.95)
    assert one.found == "higher"
    assert one.low_ms is not None
    assert one.high_ms is not None
    assert one.ms is not None
    assert 100 < one.low_ms <= one.ms <= one.high_ms < 300
    assert page.simulated


async def test_before_and_after_a_mark(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    for _ in range(20):
        world.latency.add(finished(10.0, model="mine"))
    await clock.advance(300)
    made = await client.mark("switch")
    assert made.at.timestamp() == pytest.approx(clock.now())
    await clock.advance(120)
    for _ in range(30):
        world.latency.add(finished(90.0, model="mine"))
    await clock.advance(1)
    page = await client.compare_latency("model:mine@10m..switch", "model:mine@switch", ["e2e"])
    half = page.items[0]
    assert (half.q, half.a.count, half.b.count, half.found) == (0.5, 20, 30, "higher")
    assert page.items[1].found == "too_few"
    assert page.items[1].needed == 500
    past = await client.histograms("e2e", "model:mine", since="switch")
    assert [one.count for one in past.items] == [30]
    assert past.since == made.at


async def test_marks_are_listed_logged_and_forgotten(client: AdminClient, world: World) -> None:
    await client.mark("one")
    assert [one.name for one in (await client.marks()).items] == ["one"]
    await client.unmark("one")
    assert (await client.marks()).items == []
    verbs = [one.data["verb"] for one in world.feed.recent(50) if one.kind is EventKind.OPERATION]
    assert verbs[-2:] == ["mark", "unmark"]
    with pytest.raises(NotFound):
        await client.unmark("one")


@pytest.mark.parametrize("name", ["24h", "2026-01-02", "a b", "all", "a..b"])
async def test_a_mark_cannot_look_like_a_time(client: AdminClient, name: str) -> None:
    with pytest.raises(Failed, match="cannot be called"):
        await client.mark(name)


async def test_what_cannot_be_asked_for_is_said(client: AdminClient, world: World) -> None:
    world.latency.add(replace(finished(5.0), model="m"))
    with pytest.raises(NotFound, match="no mark"):
        await client.histograms("e2e", "all", since="yesterday")
    with pytest.raises(Failed, match="not kept by minute"):
        await client.histograms("e2e", "instance:decode-0", since="2h")
    with pytest.raises(Failed, match="not before"):
        await client.histograms("e2e", "all", since="1h", until="2h")
