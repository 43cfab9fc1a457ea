"""Following a log over a real connection: what is there, what comes, and how it ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from fastapi import FastAPI
from tests.fakes.admin import served
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import NotFound


async def test_a_followed_log_gives_the_tail_and_then_what_comes(
    app: FastAPI, world: World
) -> None:
    path = world.folder / "prefill-0.log"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    async with asyncio.timeout(20), served(app) as url, AdminClient(url) as client:
        text = ""
        async with aclosing(client.follow_logs("prefill-0", tail=2)) as chunks:
            async for chunk in chunks:
                text += chunk
                if text == "two\nthree\n":
                    with path.open("a", encoding="utf-8") as file:
                        file.write("four \N{SNOWMAN}\n")
                if text.endswith("\N{SNOWMAN}\n"):
                    break
        assert text == "two\nthree\nfour \N{SNOWMAN}\n"


async def test_a_followed_log_goes_on_with_the_next_start(
    app: FastAPI, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.api.logs.LOOK_S", 0.05)
    old, new = world.folder / "old.log", world.folder / "new.log"
    old.write_text("dying\n", encoding="utf-8")
    newest = [old]
    world.plane.log_path = lambda id_, previous: newest[-1]
    async with asyncio.timeout(20), served(app) as url, AdminClient(url) as client:
        text = ""
        async with aclosing(client.follow_logs("prefill-0", tail=5)) as chunks:
            async for chunk in chunks:
                text += chunk
                if text == "dying\n":
                    new.write_text("born\n", encoding="utf-8")
                    newest.append(new)
                if text.endswith("born\n"):
                    break
        assert text == "dying\n--- prefill-0 was started again ---\nborn\n"


async def test_a_followed_log_ends_when_its_instance_has_left(
    app: FastAPI, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.api.logs.LOOK_S", 0.05)
    async with asyncio.timeout(20), served(app) as url, AdminClient(url) as client:
        async for _ in client.follow_logs("prefill-0", tail=1):
            world.state.set_observed([], [], [], 1)


async def test_folders_are_looked_through_beside_the_loop(
    client: AdminClient, world: World
) -> None:
    loops: list[asyncio.AbstractEventLoop | None] = []

    def look(id_: str, previous: bool) -> None:
        try:
            loops.append(asyncio.get_running_loop())
        except RuntimeError:
            loops.append(None)

    world.plane.log_path = look
    with pytest.raises(NotFound):
        await client.logs("prefill-0")
    assert loops == [None], "the router shares this loop: a slow disk must not stop it"


async def test_shutdown_ends_a_followed_log(app: FastAPI, world: World) -> None:
    async with asyncio.timeout(20), served(app) as url, AdminClient(url) as client:
        seen = []
        async for chunk in client.follow_logs("prefill-0", tail=1):
            seen.append(chunk)
            app.state.streams.close()
        assert seen


async def test_a_log_that_was_removed_under_a_running_instance_is_called_so(
    app: FastAPI, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.api.logs.LOOK_S", 0.05)
    found = [world.folder / "now.log"]
    found[0].write_text("here\n", encoding="utf-8")
    world.plane.log_path = lambda id_, previous: found[-1] if found else None
    async with asyncio.timeout(20), served(app) as url, AdminClient(url) as client:
        text = ""
        async for chunk in client.follow_logs("prefill-0", tail=1):
            text += chunk
            found.clear()
        assert text == "here\n--- the log of prefill-0 is not on the disk any more ---\n"
        with pytest.raises(NotFound, match="removed from the disk"):
            await client.logs("prefill-0")
