"""Real worker processes: taken over, upgraded, refused an address, and never deaf to a table."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from tests.adapters.routers.test_merging import TABLE
from tests.fakes.waiting import until

from pdctl import __version__
from pdctl.adapters.routers.handle import _understood
from pdctl.adapters.routers.processes import ProcessDataPlane, clear
from pdctl.adapters.routers.roster import Roster
from pdctl.domain.errors import OperatorError
from pdctl.domain.handoff import Load, Outcome, RequestRecord
from pdctl.domain.topology import Mode
from pdctl.gateway.plane import listen
from pdctl.seam import parts
from pdctl.shim import procfs
from pdctl.tasks import settle, spawn

EMPTY = replace(TABLE, targets=(), pairs=())


class Control:
    """A control plane as far as its router is concerned."""

    def __init__(self, home: Path, port: int, version: str = __version__, workers: int = 2) -> None:
        self.said: list[str] = []
        self.records: list[RequestRecord] = []
        self.known: set[str] = set()
        self.stores = True
        self.plane = ProcessDataPlane(
            "127.0.0.1", port, workers=workers, home=home, version=version,
            tell=lambda _, text: self.said.append(text), known=self._knows,
        )  # fmt: skip

    async def _knows(self, record: RequestRecord) -> bool:
        return record.id in self.known

    async def start(self) -> None:
        await self.plane.start()
        self._reader = spawn(self._read(), name="events")

    async def _read(self) -> None:
        async for event in self.plane.events():
            if isinstance(event, RequestRecord):
                self.records.append(event)
                if self.stores:
                    self.plane.stored([event])

    async def leave(self) -> None:
        await self.plane.leave(0)
        await settle(self._reader)

    async def stop(self) -> None:
        await self.plane.stop(0)
        await settle(self._reader)

    @property
    def pids(self) -> list[int]:
        return [one.pid for one in self.plane.workers() if one.state == "listening"]

    async def refused(self) -> str:
        """One request that nobody can serve; its id."""
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{self.plane.url}/v1/completions", json={"prompt": "x"}) as answer,
        ):
            assert answer.status == 503
            return answer.headers["x-request-id"]

    async def connected(self) -> None:
        """One connection more has been queued by the kernel, after all that were asked for."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.plane._port)
        writer.close()
        await writer.wait_closed()


Make = Callable[..., Awaitable[Control]]


@pytest_asyncio.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Starts control planes over one folder and one port; no worker outlives the test."""
    port, made = free_port(), list[Control]()

    async def start(**more: object) -> Control:
        one = Control(tmp_path / "router", port, **more)  # type: ignore[arg-type]
        await one.start()
        made.append(one)
        return one

    yield start
    for path in (tmp_path / "router").glob("*.json"):
        kill(path)


def kill(path: Path) -> None:
    """End the worker that wrote this record."""
    with contextlib.suppress(OSError, ValueError):
        data = json.loads(path.read_text(encoding="utf-8"))
        if procfs.alive(data["pid"], data["start"]):
            os.kill(data["pid"], signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_workers_are_adopted_and_end_when_told(make: Make, tmp_path: Path) -> None:
    one = await make()
    await one.plane.push(EMPTY)
    pids = one.pids
    assert len(pids) == 2
    await one.leave()
    two = await make()
    assert two.pids == pids
    await two.plane.push(EMPTY)
    assert any("Adopted 2" in text for text in two.said)
    await two.stop()
    assert not any(procfs.look(pid) for pid in pids)
    assert [path.name for path in (tmp_path / "router").iterdir()] == ["log"]


async def test_a_record_is_told_until_it_is_put_away_and_then_no_more(make: Make) -> None:
    one = await make(workers=1)
    one.stores = False
    await one.plane.push(EMPTY)
    ids = [await one.refused() for _ in range(3)]
    await until(lambda: [record.id for record in one.records] == ids)
    assert {record.outcome for record in one.records} == {Outcome.NO_INSTANCE}
    one.plane.stored(one.records[:1])
    await one.leave()
    alone = await one.refused()
    two = Control(one.plane._home, one.plane._port, workers=1)
    two.known.add(ids[1])
    await two.start()
    await until(lambda: len(two.records) == 2)
    assert [record.id for record in two.records] == [ids[2], alone]
    last = await two.refused()
    await until(lambda: two.records[-1].id == last)
    assert len(two.records) == 3
    await two.stop()


async def test_an_adopted_worker_keeps_its_table_until_ours_knows_as_much(make: Make) -> None:
    one = await make()
    await one.plane.push(TABLE)
    await until(lambda: one.plane.load.table_seq == TABLE.seq)
    await one.leave()
    two = await make()
    await two.plane.push(replace(EMPTY, seq=6))
    assert two.plane.load.table_seq == TABLE.seq
    await two.plane.push(replace(TABLE, seq=7))
    await until(lambda: two.plane.load.table_seq == 7)
    await two.stop()


async def test_another_version_is_replaced_once_we_can_route(make: Make) -> None:
    one = await make()
    await one.plane.push(EMPTY)
    old = one.pids
    await one.leave()
    two = await make(version="next")
    assert two.pids == old
    refused = spawn(hammer(two), name="clients")
    await two.plane.push(replace(EMPTY, seq=6))
    await until(lambda: len(two.pids) == 2 and not set(two.pids) & set(old))
    await until(lambda: not any(procfs.look(pid) for pid in old))
    assert {one.version for one in two.plane.workers()} == {"next"}
    assert not refused.done(), "no connection was dropped"
    await settle(refused)
    await two.stop()


async def hammer(control: Control) -> None:
    """New connections, one after the other, until one fails."""
    while True:
        await control.refused()


async def test_a_killed_worker_counts_no_more_and_comes_back(make: Make) -> None:
    one = await make()
    await one.plane.push(EMPTY)
    victim = one.pids[0]
    os.kill(victim, signal.SIGKILL)
    await until(lambda: any(f"process {victim}" in text for text in one.said if "died" in text))
    await until(lambda: len(one.pids) == 2)
    assert victim not in one.pids
    await until(lambda: one.plane.load == Load(EMPTY.seq))
    await one.stop()


@pytest.mark.parametrize("shares", [False, True])
async def test_an_address_that_another_has_is_an_operator_error(
    tmp_path: Path, shares: bool
) -> None:
    with socket.socket() as other:
        if shares:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        control = Control(tmp_path / "router", other.getsockname()[1])
        with pytest.raises(OperatorError, match="cannot listen"):
            await control.start()
    assert list((tmp_path / "router").iterdir()) == []


async def test_when_no_worker_is_wanted_those_that_run_leave_the_address(
    make: Make, tmp_path: Path
) -> None:
    one = await make()
    await one.plane.push(EMPTY)
    pids = one.pids
    await one.leave()
    await clear(tmp_path / "router")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", one.plane._port))
    await until(lambda: not any(runs(pid) for pid in pids))


def runs(pid: int) -> bool:
    found = procfs.look(pid)
    return found is not None and not found.dead


async def test_a_new_worker_hears_the_table_before_it_listens(make: Make) -> None:
    one = await make()
    await one.plane.push(TABLE)
    os.kill(one.pids[0], signal.SIGTERM)
    old = one.pids[0]
    await until(lambda: len(one.pids) == 2 and old not in one.pids)
    await until(lambda: one.plane.load.table_seq == TABLE.seq)
    await one.stop()


async def test_a_draining_worker_is_cut_short_by_a_stop(make: Make) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        one = await make(workers=1)
        target = replace(TABLE.targets[0], port=silent.getsockname()[1])
        await one.plane.push(replace(EMPTY, mode=Mode.CHUNKED, targets=(target,)))
        client = spawn(cut_off(one), name="a request that nobody answers")
        await until(lambda: one.plane.load.inflight == {"p0": 1})
        old = one.pids[0]
        os.kill(old, signal.SIGTERM)
        await until(lambda: [one.state for one in one.plane.workers()] == ["listening", "draining"])
        await one.stop()
        assert not runs(old)
        assert not any("did not end" in text for text in one.said)
        await client


async def cut_off(control: Control) -> None:
    """A request that ends without an answer, or with the router's own."""
    body = {"model": "tiny", "prompt": "x"}
    async with aiohttp.ClientSession() as client:
        try:
            async with client.post(f"{control.plane.url}/v1/completions", json=body) as answer:
                assert answer.status >= 500
        except aiohttp.ClientError:
            return


async def test_a_hung_worker_is_replaced_and_killed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.adapters.routers.handle.SILENT", 2)
    monkeypatch.setattr("pdctl.adapters.routers.processes.KILL_S", 0.5)
    one = await make(workers=1)
    await one.plane.push(EMPTY)
    (hung,) = one.pids
    os.kill(hung, signal.SIGSTOP)
    waits = spawn(one.refused(), name="came while it hung")
    await until(lambda: len(one.pids) == 1 and hung not in one.pids)
    assert await waits, "its queue went to the successor"
    await until(lambda: not runs(hung))
    assert any(f"process {hung}) hangs" in text for text in one.said)
    assert any(f"process {hung}) did not wake" in text for text in one.said)
    await one.stop()


async def test_a_hung_worker_that_wakes_drains(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdctl.adapters.routers.handle.SILENT", 2)
    one = await make(workers=1)
    await one.plane.push(EMPTY)
    (hung,) = one.pids
    os.kill(hung, signal.SIGSTOP)
    await until(lambda: len(one.pids) == 1 and hung not in one.pids)
    os.kill(hung, signal.SIGCONT)
    await until(lambda: not runs(hung))
    assert not any("did not wake" in text for text in one.said)
    await one.stop()


async def test_connections_wait_for_the_successor_of_a_dead_worker(make: Make) -> None:
    one = await make(workers=1)
    await one.plane.push(EMPTY)
    (victim,) = one.pids
    os.kill(victim, signal.SIGSTOP)  # so that it holds no half-answered request when it dies
    came = [spawn(one.refused(), name="came while nobody accepted") for _ in range(5)]
    await one.connected()
    os.kill(victim, signal.SIGKILL)
    assert all([await each for each in came])
    assert victim not in one.pids
    await one.stop()


async def test_a_worker_that_nobody_told_to_listen_is_told_by_the_next(
    make: Make, tmp_path: Path
) -> None:
    one = await make(workers=1)
    await one.plane.push(EMPTY)
    await one.stop()
    port, roster = one.plane._port, Roster(tmp_path / "router")
    with listen("127.0.0.1", port, shared=True) as listener:
        listener.listen()
        entry = roster.spawn(0, "127.0.0.1", port, __version__, listener.fileno())
    came = spawn(one.refused(), name="came before anybody accepted")
    await until(lambda: [each.pid for each in roster.alive()] == [entry.pid])
    roster.close()
    two = await make(workers=1)
    await two.plane.push(EMPTY)
    assert two.pids == [entry.pid]
    assert await came
    await two.stop()


async def test_the_log_of_a_slot_goes_on_over_its_workers(make: Make, tmp_path: Path) -> None:
    where = parts.folder(tmp_path / "router", 0)
    for _ in range(parts.KEPT + 2):
        one = await make(workers=1)
        await one.stop()
    assert len(list(where.glob("*.log"))) == parts.KEPT
    assert (where / f"{parts.KEPT + 1:03d}.log").exists()


@pytest.mark.parametrize("strange", [{"targets": 3}, {"mode": "telepathy"}, {}])
def test_a_table_of_another_version_does_not_cost_the_worker(strange: dict[str, object]) -> None:
    assert _understood(TABLE.to_json()) == TABLE
    assert _understood(TABLE.to_json() | strange if strange else {}) is None


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_worker_without_a_record_leaves_the_address(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr("pdctl.adapters.routers.address.TRIES", 20 if hangs else 400)
    one = await make(workers=1)
    (stray,) = one.pids
    await one.leave()
    for path in (tmp_path / "router").glob("*.json"):
        path.unlink()
    if hangs:
        os.kill(stray, signal.SIGSTOP)
    two = await make(workers=1)
    assert two.pids != [stray]
    await two.plane.push(EMPTY)
    assert await two.refused()
    await until(lambda: not runs(stray))
    assert any(f"sent away: {stray}" in text for text in two.said)
    await two.stop()
