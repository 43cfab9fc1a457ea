"""The feed over a real connection: resume, reset, topics, silence, slow readers, shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from tests.fakes.admin import served
from tests.fakes.world import World

from pdctl.api import events as module
from pdctl.client.stream import Message, messages
from pdctl.domain.events import EventKind

SSE = {"accept": "text/event-stream"}


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    async with served(app) as base:
        yield base


@asynccontextmanager
async def listening(
    url: str, position: str | None = None, **query: str
) -> AsyncIterator[AsyncIterator[Message]]:
    headers = SSE if position is None else SSE | {"last-event-id": position}
    async with (
        asyncio.timeout(20),
        httpx2.AsyncClient() as http,
        http.stream("GET", f"{url}/api/v1/events", headers=headers, params=query) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["cache-control"] == "no-cache"
        yield messages(answer)


def say(world: World, text: str) -> int:
    world.publish(EventKind.NOTICE, "fleet", {"level": "info", "message": text})
    return world.feed.seq


async def test_facts_come_as_they_happen(url: str, world: World) -> None:
    async with listening(url, str(world.feed.seq)) as stream:
        seq = say(world, "line one\nline two \N{LINE SEPARATOR} three")
        message = await anext(stream)
        assert (message.event, message.id) == ("notice", f"{world.plane.epoch}-{seq}")
        data: dict[str, Any] = json.loads(message.data)
        assert data["seq"] == seq
        assert data["data"]["message"] == "line one\nline two \N{LINE SEPARATOR} three"


@pytest.mark.parametrize("how", ["header", "query", "bare"])
async def test_a_broken_stream_goes_on_where_it_was(url: str, world: World, how: str) -> None:
    left = world.feed.seq
    missed = [say(world, str(n)) for n in range(3)]
    full = f"{world.plane.epoch}-{left}"
    position, query = {
        "header": (full, {}), "query": (None, {"after": full}), "bare": (str(left), {}),
    }[how]  # fmt: skip
    async with listening(url, position, **query) as stream:
        assert [json.loads((await anext(stream)).data)["seq"] for _ in range(3)] == missed


@pytest.mark.parametrize("position", ["0abc-3", "999999", "{epoch}-999999"])
async def test_a_position_that_means_nothing_here_is_a_reset(
    url: str, world: World, position: str
) -> None:
    asked = position.format(epoch=world.plane.epoch)
    async with listening(url, asked) as stream:
        message = await anext(stream)
        assert (message.event, message.id) == ("reset", f"{world.plane.epoch}-{world.feed.seq}")
        seq = say(world, "after the reset")
        assert json.loads((await anext(stream)).data)["seq"] == seq


async def test_a_position_that_the_ring_has_lost_is_a_reset(url: str, world: World) -> None:
    for number in range(5000):
        say(world, str(number))
    async with listening(url, f"{world.plane.epoch}-3") as stream:
        assert (await anext(stream)).event == "reset"


async def test_topics_choose_by_the_first_word(url: str, world: World) -> None:
    async with listening(url, str(world.feed.seq), topics="instance,pair") as stream:
        say(world, "not this")
        data = {"phase": "ready"}
        world.publish(EventKind.INSTANCE_CHANGED, "decode-0", data)
        assert (await anext(stream)).event == "instance.changed"


async def test_silence_is_broken_by_pings(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PING_S", 0.05)
    async with (
        asyncio.timeout(20),
        httpx2.AsyncClient() as http,
        http.stream("GET", f"{url}/api/v1/events", headers=SSE) as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        found = [await anext(lines) for _ in range(8)]
        assert found.count(": ping") >= 2


async def test_a_slow_reader_gets_a_reset_and_slows_nobody(url: str, world: World) -> None:
    async with listening(url, str(world.feed.seq)) as stream:
        say(world, "first")
        assert (await anext(stream)).event == "notice"
        for _ in range(40):
            for number in range(2000):
                say(world, f"{number} " + "x" * 500)
            await asyncio.sleep(0)
        kinds = set()
        async for message in stream:
            kinds.add(message.event)
            if message.event == "reset":
                break
        assert "reset" in kinds


async def test_shutdown_ends_streams_promptly(app: FastAPI, world: World) -> None:
    loop = asyncio.get_running_loop()
    async with served(app) as url, listening(url, str(world.feed.seq)) as stream:
        say(world, "open")
        await anext(stream)
        began = loop.time()
        app.state.streams.close()
        assert [message async for message in stream] == []
    assert loop.time() - began < 3


async def test_a_stream_that_is_left_leaves_nothing_behind(url: str, world: World) -> None:
    async with listening(url, str(world.feed.seq)) as stream:
        say(world, "open")
        await anext(stream)
        assert len(world.feed._subscribers) == 1
    async with asyncio.timeout(10):
        while world.feed._subscribers:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_page_without_the_stream(http: httpx2.AsyncClient, world: World) -> None:
    sequence = [say(world, str(number)) for number in range(10)]
    newest = (await http.get("/api/v1/events?limit=4")).json()
    assert [item["seq"] for item in newest["items"]] == sequence[-4:]
    assert newest["seq"] == world.feed.seq
    after = (await http.get(f"/api/v1/events?after={sequence[2]}&limit=3")).json()
    assert [item["seq"] for item in after["items"]] == sequence[3:6]
    chosen = (await http.get("/api/v1/events?topics=instance&limit=2000")).json()
    assert {item["kind"] for item in chosen["items"]} == {"instance.changed"}
    older = (await http.get(f"/api/v1/events?before={sequence[4]}&topics=notice&limit=2")).json()
    assert [item["seq"] for item in older["items"]] == sequence[2:4]
    for name in ("decode-2", "nobody"):
        page = (await http.get(f"/api/v1/events?about={name}&topics=instance.changed")).json()
        assert {item["subject"] for item in page["items"]} == {name} - {"nobody"}


async def test_a_page_without_the_store_is_what_the_ring_has(
    http: httpx2.AsyncClient, world: World
) -> None:
    say(world, "kept in memory")
    world.store.failing = True
    page = (await http.get("/api/v1/events?limit=1")).json()
    assert page["items"][0]["data"]["message"] == "kept in memory"
