"""Watching the feed as a face does: across restarts, refusals and missed facts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.admin import served
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.client import stream as module
from pdctl.client.admin import AdminClient
from pdctl.client.errors import Denied, Unreachable
from pdctl.client.stream import (
    Connected,
    Disconnected,
    Message,
    Reset,
    Seen,
    SseParser,
    watch,
)
from pdctl.contract.resources import EventView
from pdctl.domain.events import EventKind

T = TypeVar("T")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.02)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(VirtualClock(), "normal", tmp_path)


def parsed(text: str) -> list[Message]:
    parser = SseParser()
    return [found for line in text.split("\n") if (found := parser.feed(line)) is not None]


def test_the_grammar_of_event_streams() -> None:
    text = (
        ": hello\nretry: 250\n\nevent: notice\nid: e-4\ndata: one\ndata:two\n\n"
        "data\n\ndata: \n\nid: e-5\n\ndata:  spaced: kept\nunknown: x\n\nevent: lost\n\ndata: cut"
    )
    assert parsed(text) == [
        Message("notice", "one\ntwo", "e-4"),
        Message("message", "", "e-4"),
        Message("message", "", "e-4"),
        Message("message", " spaced: kept", "e-5"),
    ]


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab:\r\n \x00dataeventid0123456789", max_size=80))
def test_no_stream_breaks_the_parser(text: str) -> None:
    for message in parsed(text):
        assert message.event
        assert "\0" not in message.id


def test_retry_is_read() -> None:
    parser = SseParser()
    for line in ("retry: 250", "retry: soon", "retry: -1"):
        parser.feed(line)
    assert parser.retry_ms == 250


async def first(seen: AsyncIterator[Seen], kind: type[T]) -> T:
    async for one in seen:
        if isinstance(one, kind):
            return one
    raise AssertionError("the stream ended")


def say(world: World, text: str) -> int:
    world.publish(EventKind.NOTICE, "fleet", {"level": "info", "message": text})
    return world.feed.seq


async def test_list_then_watch_misses_nothing(world: World) -> None:
    app = create_api(world.plane, token=None)
    async with asyncio.timeout(20), served(app) as url, AdminClient(url) as client:
        fleet = await client.fleet()
        seq = say(world, "between the list and the watch")
        async with aclosing(watch(client, fleet.position)) as seen:
            assert isinstance(await anext(seen), Connected)
            event = await first(seen, EventView)
            assert (event.seq, event.kind) == (seq, "notice")


async def test_it_comes_back_after_a_broken_connection_without_a_gap(world: World) -> None:
    app = create_api(world.plane, token=None)
    async with asyncio.timeout(30), AdminClient("http://127.0.0.1:1") as nowhere:
        async with served(app) as url:
            port = int(url.rpartition(":")[2])
            client = AdminClient(url)
            seen = watch(client, (await client.fleet()).position)
            say(world, "one")
            assert (await first(seen, EventView)).data["message"] == "one"
        lost = await first(seen, Disconnected)
        assert isinstance(lost.error, Unreachable)
        assert lost.retry_in_s > 0
        say(world, "two, while nobody listened")
        async with served(create_api(world.plane, token=None), port):
            await first(seen, Connected)
            event = await first(seen, EventView)
            assert event.data["message"] == "two, while nobody listened"
            await seen.aclose()
            await client.close()
        with pytest.raises(Unreachable):
            await nowhere.fleet()


async def test_another_server_at_the_same_place_is_a_reset(world: World, tmp_path: Path) -> None:
    async with asyncio.timeout(30):
        async with served(create_api(world.plane, token=None)) as url:
            port = int(url.rpartition(":")[2])
            client = AdminClient(url)
            seen = watch(client, (await client.fleet()).position)
            say(world, "one")
            await first(seen, EventView)
        clock = VirtualClock()
        await clock.advance(60)
        other = World(clock, "normal", tmp_path)
        async with served(create_api(other.plane, token=None), port):
            reset = await first(seen, Reset)
            assert reset.seq == other.feed.seq
            await seen.aclose()
            await client.close()


async def test_a_refusal_is_not_retried(world: World) -> None:
    app = create_api(world.plane, token="s3cret")
    async with (
        asyncio.timeout(20),
        served(app) as url,
        AdminClient(url, "wrong") as client,
        aclosing(watch(client, None)) as seen,
    ):
        with pytest.raises(Denied):
            await first(seen, EventView)


async def test_retries_grow_and_are_told() -> None:
    pauses = []
    async with (
        asyncio.timeout(20),
        AdminClient("http://127.0.0.1:1") as client,
        aclosing(watch(client, 3)) as stream,
    ):
        for _ in range(5):
            seen = await anext(stream)
            assert isinstance(seen, Disconnected)
            pauses.append(seen.retry_in_s)
    assert all(0.5 <= pause / (0.02 * 2**n) <= 1 for n, pause in enumerate(pauses))
