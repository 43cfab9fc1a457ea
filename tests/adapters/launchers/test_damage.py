"""Records lost or damaged under running engines: nothing is orphaned, nothing is immortal."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.launchers.orders import FAMILY, gone, of, order, until

from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.subprocess import SubprocessLauncher
from pdctl.adapters.supervision import leftovers
from pdctl.domain.instance import ExitInfo
from pdctl.ports import LaunchOrder, Running
from pdctl.shim import procfs, records

SLEEP = "import time; print('up'); time.sleep(600)"
DAMAGE: list[Any] = [
    {"members": [5, "x", [1], ["a", "b"]], "segments": {"a": 1}},
    {"members": 7, "segments": [[1, 2], ["../x", 3]]},
    [1, 2],
    "rubbish",
]


async def started(run: Path, one: LaunchOrder) -> tuple[Path, Running]:
    """A start whose control plane is gone already."""
    old = SubprocessLauncher(run, SystemClock())
    running = await old.launch(one)
    home = Path(running.log_path).parents[1]
    await old.close()
    return home, running


def family(running: Running) -> list[int]:
    """The pids that the FAMILY script printed."""
    return [int(word) for word in Path(running.log_path).read_text().split() if word.isdigit()]


def shim_of(running: Running) -> int:
    """Its pid, which must be known."""
    assert running.shim_pid is not None
    return running.shim_pid


@pytest.mark.parametrize("name", [records.FOOTPRINT, records.EXIT])
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_record_never_makes_a_dead_instance_immortal(
    tmp_path: Path, name: str, damage: Any
) -> None:
    one = order(SLEEP)
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    running = await launcher.launch(one)
    home = Path(running.log_path).parents[1]
    os.kill(shim_of(running), signal.SIGSTOP)
    (home / name).write_text(json.dumps(damage))
    os.kill(shim_of(running), signal.SIGKILL)
    await until(launcher._starts[one.nonce].ended.is_set)
    found = of(await launcher.list(), one.nonce)
    assert not found.alive
    assert found.exit is not None
    assert "supervisor was killed" in found.exit.first_error
    assert gone(running.pid or 0)
    await launcher.kill(one.nonce)
    await launcher.close()


async def test_an_end_that_cannot_be_made_out_is_an_end(
    launcher: SubprocessLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> ExitInfo:
        raise TypeError("whatever nobody foresaw")

    monkeypatch.setattr(leftovers, "conclude", broken)
    one = order(SLEEP)
    running = await launcher.launch(one)
    os.kill(shim_of(running), signal.SIGKILL)
    await until(launcher._starts[one.nonce].ended.is_set)
    found = of(await launcher.list(), one.nonce)
    assert found.exit is not None
    assert "could not make out how" in found.exit.first_error


@pytest.mark.parametrize(
    "damage",
    [
        "", '{"boot_id":', "[1,2]",
        '{"boot_id":5,"shim_pid":"x","shim_start":null,"session":[],"pid":"y","start":1}',
        '{"boot_id":"half","shim_pid":1,"shim_start":1,"session":1,"pid":1,"start":1,'
        '"started_at":1}',
        "init",
    ],
)  # fmt: skip
async def test_a_running_engine_is_adopted_without_the_record_of_its_shim(
    tmp_path: Path, damage: str
) -> None:
    one = order(SLEEP)
    home, running = await started(tmp_path, one)
    if damage == "init":
        data = {"shim_pid": 1, "pid": 1, "session": 1}
        damage = json.dumps((records.read(str(home), records.SHIM) or {}) | data)
    (home / records.SHIM).write_text(damage)
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    found = of(await launcher.list(), one.nonce)
    assert found.alive
    assert (found.pid, found.shim_pid) == (running.pid, running.shim_pid)
    assert abs(found.started_at - running.started_at) < 3
    assert await launcher.lost([one.nonce]) == ()
    await launcher.kill(one.nonce)
    assert gone(running.pid or 0)
    await launcher.close()


@pytest.mark.parametrize(
    "damage", ["{", "[1]", '{"order":[1]}', '{"order":{"env":5,"argv":"x"}}', "gone", "all"]
)
async def test_engines_without_an_order_are_found_and_ended(tmp_path: Path, damage: str) -> None:
    one, other = order(FAMILY), order(SLEEP)
    run = tmp_path / "run"
    home, running = await started(run, one)
    await until(lambda: len(family(running)) == 3)
    pids = family(running)
    _, healthy = await started(run, other)
    match damage:
        case "gone":
            (home / records.ORDER).unlink()
        case "all":
            shutil.rmtree(home)
        case _:
            (home / records.ORDER).write_text(damage)
    launcher = SubprocessLauncher(run, SystemClock())
    found = await launcher.list()
    assert [each.order.nonce for each in found] == [other.nonce]
    (lost,) = await launcher.lost()
    assert lost.nonce == one.nonce
    assert {running.pid, running.shim_pid, *pids} <= set(lost.pids)
    assert await launcher.end_lost(lost) == ()
    assert all(gone(pid) for pid in [*pids, running.pid or 0, shim_of(running)])
    assert await launcher.lost([one.nonce, other.nonce]) == ()
    assert of(await launcher.list(), other.nonce).alive
    assert not gone(healthy.pid or 0)
    await launcher.kill(other.nonce)
    await launcher.close()


async def test_a_family_without_shim_and_record_is_found_by_its_nonce(tmp_path: Path) -> None:
    one = order(FAMILY)
    home, running = await started(tmp_path, one)
    await until(lambda: len(family(running)) == 3)
    pids = family(running)
    shutil.rmtree(home)
    os.kill(shim_of(running), signal.SIGKILL)
    await until(lambda: gone(running.pid or 0))
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    assert await launcher.lost() == (), "nobody remembers it: it might be anybody's"
    (lost,) = await launcher.lost([one.nonce])
    assert set(pids) <= set(lost.pids)
    assert await launcher.end_lost(lost) == ()
    assert all(gone(pid) for pid in pids)
    await launcher.close()


async def test_the_end_is_known_although_the_folder_is_gone(tmp_path: Path) -> None:
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    one = order(FAMILY)
    running = await launcher.launch(one)
    await until(lambda: len(family(running)) == 3)
    pids = family(running)
    shutil.rmtree(tmp_path / one.nonce)
    await launcher.kill(one.nonce)
    found = of(await launcher.list(), one.nonce)
    assert not found.alive
    assert found.exit is not None
    assert "could not record how" in found.exit.first_error
    assert all(gone(pid) for pid in [*pids, running.pid or 0, shim_of(running)])
    await launcher.close()


async def test_trouble_with_one_start_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = order(SLEEP), order(SLEEP)
    home, _ = await started(tmp_path, one)
    await started(tmp_path, other)
    real = leftovers.identity

    def picky(where: Path) -> Any:
        if where == home:
            raise TypeError("whatever nobody foresaw")
        return real(where)

    monkeypatch.setattr(leftovers, "identity", picky)
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    assert [each.order.nonce for each in await launcher.list()] == [other.nonce]
    (lost,) = await launcher.lost()
    assert lost.nonce == one.nonce
    assert await launcher.end_lost(lost) == ()
    await launcher.kill(other.nonce)
    await launcher.close()


async def test_the_known_cause_wins_over_an_old_line_of_the_log(
    launcher: SubprocessLauncher,
) -> None:
    one = order("import time; print('ValueError: of an hour ago', flush=True); time.sleep(600)")
    running = await launcher.launch(one)
    await until(lambda: "hour ago" in Path(running.log_path).read_text())
    os.kill(shim_of(running), signal.SIGKILL)
    await until(launcher._starts[one.nonce].ended.is_set)
    found = of(await launcher.list(), one.nonce)
    assert found.exit is not None
    assert "supervisor was killed" in found.exit.first_error
    assert found.exit.last_lines == ("ValueError: of an hour ago",)


async def test_a_taken_side_channel_port_is_seen_while_it_loads(
    launcher: SubprocessLauncher,
) -> None:
    line = "(EngineCore pid=7) zmq.error.ZMQError: Address already in use (addr='tcp://x:1')"
    one = order(f"import time; print({line!r}, flush=True); time.sleep(600)")
    running = await launcher.launch(one)
    await until(lambda: "ZMQError" in Path(running.log_path).read_text())
    found = of(await launcher.list(), one.nonce)
    assert found.alive
    assert found.doom == "zmq.error.ZMQError: Address already in use (addr='tcp://x:1')"


def test_a_strangers_processes_are_never_taken_for_ours(tmp_path: Path) -> None:
    assert leftovers.lost(tmp_path, {"0123456789abcdef"}, set()) == {}
    assert leftovers.shims(tmp_path) == {}
    assert procfs.variable(os.getpid(), "PDCTL_NO_SUCH_VARIABLE") == ""
