"""The follower before a real server: it keeps up, recovers, and says what is wrong."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI

from pdctl.api import create_api
from pdctl.api.context import Streams
from pdctl.client.admin import AdminClient
from pdctl.contract.resources import FleetView
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl_console import follower as following
from pdctl_console import model
from pdctl_console.follower import Follower, Look
from pdctl_console.model import ViewState
from tests.console.stage import world_of
from tests.fakes.admin import served
from tests.fakes.clock import VirtualClock
from tests.fakes.waiting import until
from tests.fakes.world import World


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def follow(url: str, token: str | None = None) -> AsyncIterator[Follower]:
    told: list[ViewState] = []
    async with AdminClient(url, token) as client:
        one = Follower(client, told.append, lambda: datetime.now(UTC))
        one.look(Look(requests=True))
        task = asyncio.create_task(one.run())
        try:
            yield one
            assert told, "nothing was published"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of("normal", tmp_path)


def fresh(one: Follower) -> bool:
    state = one.state
    return state.connected and not (state.fleet_old or state.pairs_old or state.requests_old)


async def test_lists_then_follows(world: World) -> None:
    async with served(create_api(world.plane, token=None)) as url, follow(url) as one:
        await until(lambda: fresh(one) and bool(one.state.latency))
        assert one.state.fleet is not None
        assert len(one.state.fleet.instances) == 5
        assert (len(one.state.pairs), len(one.state.requests)) == (6, 100)
        world.change("decode-0", Phase.FAILED, Reason.EXITED, "gone")
        await until(lambda: _phase(one, "decode-0") is Phase.FAILED)
        assert one.state.events[-1].data["message"] == "gone"
        world.publish(EventKind.PAIR_CHANGED, "prefill-0>decode-0", {"state": "failing"})
        await until(lambda: any(pair.state == "failing" for pair in one.state.pairs))


def _phase(one: Follower, id_: str) -> Phase | None:
    fleet = one.state.fleet
    return next((at.phase for at in fleet.instances if at.id == id_), None) if fleet else None


async def test_rows_come_by_event_and_by_list(world: World) -> None:
    async with served(create_api(world.plane, token=None)) as url, follow(url) as one:
        await until(lambda: fresh(one))
        intake = asyncio.create_task(world.intake.run())
        before = {row.id for row in one.state.requests}
        world.tick()
        await until(lambda: len({row.id for row in one.state.requests} - before) == 3)
        done = world._record(world.clock.now())
        world.requests.add(done)
        world.publish(EventKind.REQUEST_FINISHED, "requests", {"count": 1, "by": {"pd/ok": 1}})
        await until(lambda: done.id in {row.id for row in one.state.requests})
        intake.cancel()
        await asyncio.gather(intake, return_exceptions=True)


async def test_survives_a_restart_of_the_server_and_counts_it(world: World, tmp_path: Path) -> None:
    port = free_port()
    async with follow(f"http://127.0.0.1:{port}") as one:
        await until(lambda: "cannot be reached" in one.state.trouble)
        async with served(create_api(world.plane, token=None), port):
            await until(lambda: fresh(one))
        await until(lambda: not one.state.connected)
        assert "Retrying." in one.state.trouble
        assert one.state.fleet is not None, "what was shown stays"
        clock = VirtualClock()
        await clock.advance(60)
        anew = World(clock, "empty", tmp_path)
        async with served(create_api(anew.plane, token=None), port):
            await until(lambda: fresh(one) and one.state.restarts == 1)
            assert (one.state.fleet.instances, one.state.requests) == ([], ())


async def test_a_refusal_is_not_hammered_and_says_what_to_do(world: World) -> None:
    app = create_api(world.plane, token="secret")
    asked: list[str] = []

    @app.middleware("http")
    async def count(request: object, call_next: object) -> object:
        asked.append(str(request))
        return await call_next(request)  # type: ignore[operator]

    async with served(app) as url, follow(url, "wrong") as one:
        await until(lambda: one.state.refused)
        assert "--token-file" in one.state.trouble
        asked.clear()
        await asyncio.sleep(0.3)
        assert asked == []
        one.again()
        await until(lambda: bool(asked))


async def test_another_server_behind_the_url() -> None:
    async with served(_with_streams(FastAPI())) as url, follow(url) as one:
        await until(lambda: one.state.refused)
        assert "admin URL" in one.state.trouble


def _with_streams(app: FastAPI) -> FastAPI:
    app.state.streams = Streams()
    return app


async def test_its_own_defects_are_shown_and_it_starts_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "FIRST_RETRY_S", 0.05)
    broken = True
    real = model.on_fleet

    def on_fleet(state: ViewState, fleet: FleetView, seen: datetime) -> ViewState:
        if broken:
            raise ValueError("a defect")
        return real(state, fleet, seen)

    monkeypatch.setattr(model, "on_fleet", on_fleet)
    async with served(create_api(world.plane, token=None)) as url, follow(url) as one:
        await until(lambda: "a defect" in one.state.trouble)
        broken = False
        await until(lambda: fresh(one))


async def test_asks_only_for_what_is_looked_at(world: World) -> None:
    async with served(create_api(world.plane, token=None)) as url, follow(url) as one:
        one.look(Look(gauges=False, latency=False, requests=False))
        await until(lambda: one.state.connected and not one.state.pairs_old)
        assert (one.state.latency_old, one.state.requests_old) == (True, True)
        one.look(Look(window_s=None))
        await until(lambda: not one.state.latency_old)
        assert {view.window_s for view in one.state.latency} == {None}
