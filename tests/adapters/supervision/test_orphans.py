"""Engines that nobody supervises, as real processes: seen, ended with all they left, watched."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.adapters.launchers.orders import command, gone, of, until
from tests.adapters.launchers.test_simulated import free_port

from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.subprocess import SubprocessLauncher
from pdctl.adapters.supervision.orphans import end, look, ours_of
from pdctl.domain.errors import EngineError
from pdctl.domain.orphans import Found, Kind, Ours
from pdctl.domain.takeover import flags_of
from pdctl.ports import LaunchOrder, Running
from pdctl.shim import procfs

ByHand = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[ByHand]:
    """Starts engines as an operator would from a shell: with a log, without a supervisor."""
    started: list[subprocess.Popen[bytes]] = []
    mark = uuid.uuid4().hex

    def start() -> subprocess.Popen[bytes]:
        argv = (
            sys.executable, "-m", "pdctl.simulated", "--port", str(free_port()),
            "--side-channel-port", str(free_port()), "--role", "decode", "--with-engine-core",
            "--engine-id", mark,
        )  # fmt: skip
        env = {**os.environ, "VLLM_PROCESS_NAME_PREFIX": f"t{mark[:12]}"}
        with (tmp_path / "engine.log").open("ab") as log:
            one = subprocess.Popen(argv, stdout=log, stderr=log, env=env, process_group=0)
        started.append(one)
        return one

    yield start
    for one in started:
        for pid in [pid for pid, proc in procfs.everyone().items() if proc.group == one.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        one.kill()
        one.wait()
    for left in Path("/dev/shm").glob(f"psm_t{mark[:12]}_*"):
        left.unlink()


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[SubprocessLauncher]:
    one = SubprocessLauncher(tmp_path / "state" / "run", SystemClock())
    yield one
    for running in await one.list():
        await one.kill(running.order.nonce)
    await one.close()


async def seen(pid: int, ours: Ours | None = None, *, whole: bool = True) -> Found:
    """The engine that `pid` is a part of, once it is up."""
    found: list[Found] = []

    def there() -> bool:
        for one in look(ours or Ours()):
            if any(member.pid == pid for member in one.family.members):
                found.append(one)
                return not whole or (len(one.family.members) > 2 and len(one.family.ports) > 1)
        return False

    await until(there, why=f"no engine of {pid}")
    return found[-1]


def attached(found: Found) -> LaunchOrder:
    return command(*found.family.leader.words)


async def test_an_engine_started_by_hand_is_seen_with_what_it_holds(by_hand: ByHand) -> None:
    engine = by_hand()
    found = await seen(engine.pid)
    flags = flags_of(found.family)
    assert (found.kind, found.family.leader.pid) == (Kind.FOREIGN, engine.pid)
    assert {flags.port, flags.side_channel} <= set(found.family.ports)
    assert [one.part for one in found.family.members][:2] == ["simulated engine", "EngineCore"]
    assert found.family.memory is not None
    assert found.family.memory > 2**20
    assert found.family.leader.user
    assert found.family.leader.readable


async def test_what_a_killed_api_server_leaves_is_ended_with_its_shared_memory(
    by_hand: ByHand,
) -> None:
    engine = by_hand()
    whole = await seen(engine.pid)
    engine.kill()
    engine.wait()
    core = next(one.pid for one in whole.family.members if one.part == "EngineCore")
    left = await seen(core, whole=False)
    assert left.kind is Kind.ORPHANED
    assert {one.part for one in left.family.members} == {"EngineCore", "Worker"}
    assert left.key != whole.key
    shared = {name for one in left.family.members for name, _ in procfs.segments(one.pid)}
    assert shared
    done = end(left, 5.0)
    assert (done.processes, done.survivors, set(done.segments)) == (2, (), shared)
    assert all(gone(one.pid) for one in left.family.members)
    assert end(left, 5.0).segments == (), "nothing is left to end"


async def test_an_orderly_end_is_the_engines_own(by_hand: ByHand) -> None:
    engine = by_hand()
    found = await seen(engine.pid)
    done = end(found, 20.0)
    assert engine.wait() == 0
    assert (done.survivors, done.segments) == ((), ())


async def test_a_supervised_engine_belongs_to_the_folder_of_its_records(
    launcher: SubprocessLauncher, tmp_path: Path
) -> None:
    order = command(
        sys.executable, "-m", "pdctl.simulated", "--port", str(free_port()),
        "--side-channel-port", str(free_port()), instance="decode-4",
    )  # fmt: skip
    run = await launcher.launch(order)
    assert run.pid is not None
    ours = ours_of(tmp_path / "state" / "run")
    assert ours.instances == {order.nonce: "decode-4"}
    mine = await seen(run.pid, ours, whole=False)
    assert (mine.kind, mine.instance) == (Kind.ADOPTED, "decode-4")
    theirs = await seen(run.pid, whole=False)
    assert (theirs.kind, theirs.instance) == (Kind.FOREIGN, "decode-4")
    assert str(tmp_path / "state" / "run") in theirs.why
    assert "does not run now" in theirs.why


async def test_an_attached_engine_is_told_of_and_ends_as_one(
    launcher: SubprocessLauncher, by_hand: ByHand, tmp_path: Path
) -> None:
    engine = by_hand()
    found = await seen(engine.pid)
    leader, order = found.family.leader, attached(found)
    run = await launcher.attach(order, (leader.pid, leader.start), leader.since)
    assert (run.pid, run.alive) == (engine.pid, True)
    mine = await seen(engine.pid, ours_of(tmp_path / "state" / "run"))
    assert mine.kind is Kind.ADOPTED
    log = launcher.log_path(order.instance_id)
    assert log is not None
    assert "simulated" in log.read_text()

    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    await until(lambda: all(gone(one.pid) for one in found.family.members))
    ended = await _ended(launcher, order.nonce)
    assert ended.exit is not None
    assert (ended.exit.code, ended.exit.signal) == (None, None)
    assert "how it ended is not known" in ended.exit.first_error
    assert ended.exit.last_lines


async def test_an_attached_engine_stops_in_order_and_outlives_its_launcher(
    launcher: SubprocessLauncher, by_hand: ByHand, tmp_path: Path
) -> None:
    engine = by_hand()
    found = await seen(engine.pid)
    leader, order = found.family.leader, attached(found)
    await launcher.attach(order, (leader.pid, leader.start), leader.since)
    await launcher.close()

    again = SubprocessLauncher(tmp_path / "state" / "run", SystemClock())
    assert of(await again.list(), order.nonce).pid == engine.pid
    await again.terminate(order.nonce)
    assert engine.wait() == 0
    assert not (await _ended(again, order.nonce)).alive
    await again.close()


async def test_what_is_let_go_runs_on_and_leaves_no_trace(
    launcher: SubprocessLauncher, by_hand: ByHand, tmp_path: Path
) -> None:
    engine = by_hand()
    found = await seen(engine.pid)
    leader, order = found.family.leader, attached(found)
    run = await launcher.attach(order, (leader.pid, leader.start), leader.since)
    assert run.shim_pid is not None
    await launcher.detach(order.nonce)
    assert gone(run.shim_pid)
    assert not gone(engine.pid)
    assert await launcher.list() == []
    assert not (tmp_path / "state" / "run" / order.nonce).exists()


async def test_an_engine_that_has_ended_cannot_be_watched(
    launcher: SubprocessLauncher, by_hand: ByHand, tmp_path: Path
) -> None:
    engine = by_hand()
    found = await seen(engine.pid)
    leader, order = found.family.leader, attached(found)
    with pytest.raises(EngineError, match="cannot start the engine"):
        await launcher.attach(order, (leader.pid, leader.start + 1), leader.since)
    assert not gone(engine.pid)
    assert await launcher.list() == []
    assert not (tmp_path / "state" / "run" / order.nonce).exists()


async def _ended(launcher: SubprocessLauncher, nonce: str) -> Running:
    """The start once its end is known."""
    async with asyncio.timeout(20):
        while (one := of(await launcher.list(), nonce)).alive:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.05)
    return one
