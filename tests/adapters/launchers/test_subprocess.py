"""The subprocess launcher with real children, real signals and real files."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.adapters.launchers.orders import BASE, FAMILY, command, gone, of, order, until

from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.subprocess import SubprocessLauncher
from pdctl.adapters.supervision import leftovers, starts
from pdctl.domain.errors import EngineError
from pdctl.ports import LaunchOrder, Running
from pdctl.shim import procfs, records

SLEEP = "import time; print('up'); time.sleep(600)"


async def ended(launcher: SubprocessLauncher, nonce: str, within_s: float = 20.0) -> Running:
    """The start once its family is gone."""
    deadline = time.monotonic() + within_s
    while (one := of(await launcher.list(), nonce)).alive:
        assert time.monotonic() < deadline, "it has not ended in time"
        await asyncio.sleep(0.02)
    return one


def logged(running: Running) -> str:
    """What the start has written so far."""
    return Path(running.log_path).read_text()


def descriptors() -> int:
    """How many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def family(running: Running) -> list[int]:
    """The pids that the FAMILY script printed."""
    return [int(word) for word in logged(running).split() if word.isdigit()]


async def test_a_start_runs_detached_and_says_who_it_is(launcher: SubprocessLauncher) -> None:
    running = await launcher.launch(order(SLEEP))
    assert running.alive
    assert running.pid is not None
    assert running.shim_pid is not None
    leader, shim = procfs.look(running.pid), procfs.look(running.shim_pid)
    assert leader is not None
    assert shim is not None
    assert (leader.parent, leader.session, leader.group) == (shim.pid, shim.pid, leader.pid)
    assert shim.session == shim.pid != os.getsid(0)
    await until(lambda: logged(running) == "up\n")


async def test_launch_is_idempotent_by_nonce(launcher: SubprocessLauncher) -> None:
    one = order(SLEEP)
    first, second, third = await asyncio.gather(*(launcher.launch(one) for _ in range(3)))
    assert first.pid == second.pid == third.pid
    assert len(await launcher.list()) == 1


async def test_the_environment_is_clean(
    launcher: SubprocessLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/usr/bin:/bin")
    one = order(
        "import os; print(sorted(os.environ)); print(os.environ['PATH'])", env=(("A", "1"),)
    )
    running = await launcher.launch(one)
    await ended(launcher, one.nonce)
    names, path = logged(running).splitlines()
    assert "'A'" in names
    assert records.NONCE_VARIABLE in names
    assert "VIRTUAL_ENV" not in names
    assert "PYTHONPATH" not in names
    assert path == f"{Path(BASE).parent}:/usr/bin:/bin"


async def test_a_secret_by_reference_reaches_the_engine_and_not_the_disk(
    launcher: SubprocessLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_SOURCE", "very-secret")
    one = order(
        "import os; print(len(os.environ['HF_TOKEN']))", env=(("HF_TOKEN", "env:MY_SECRET_SOURCE"),)
    )
    running = await launcher.launch(one)
    home = Path(running.log_path).parents[1]
    await ended(launcher, one.nonce)
    assert logged(running) == "11\n"
    assert not any(b"very-secret" in file.read_bytes() for file in home.rglob("*.json"))
    with pytest.raises(EngineError, match="MISSING, which is not set"):
        await launcher.launch(order(SLEEP, env=(("A", "env:MISSING"),)))


async def test_a_killed_leader_takes_its_whole_family_along(launcher: SubprocessLauncher) -> None:
    one = order(FAMILY)
    running = await launcher.launch(one)
    assert running.pid is not None
    await until(lambda: len(family(running)) == 3)
    pids = family(running)
    os.kill(running.pid, signal.SIGKILL)
    end = await ended(launcher, one.nonce, within_s=8)
    assert end.exit is not None
    assert (end.exit.code, end.exit.signal) == (None, signal.SIGKILL)
    assert all(gone(pid) for pid in [*pids, running.shim_pid or 0])


async def test_the_exit_tells_code_lines_and_first_error(launcher: SubprocessLauncher) -> None:
    one = order("print('hello'); raise ValueError('free memory is less than desired')")
    await launcher.launch(one)
    end = await ended(launcher, one.nonce)
    assert end.exit is not None
    assert (end.exit.code, end.exit.signal) == (1, None)
    assert end.exit.first_error == "ValueError: free memory is less than desired"
    assert end.exit.last_lines[0] == "hello"


async def test_terminate_reaches_the_leader_only(launcher: SubprocessLauncher) -> None:
    script = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("draining"), time.sleep(0.3), sys.exit(0)))
print("up"); time.sleep(600)
"""
    one = order(script)
    running = await launcher.launch(one)
    await until(lambda: "up" in logged(running))
    await launcher.terminate(one.nonce)
    end = await ended(launcher, one.nonce)
    assert end.exit is not None
    assert end.exit.code == 0
    assert end.exit.last_lines == ("up", "draining")
    await launcher.terminate("unknown")


async def test_kill_ends_everything_and_waits_for_it(launcher: SubprocessLauncher) -> None:
    one = order(FAMILY)
    running = await launcher.launch(one)
    await until(lambda: len(family(running)) == 3)
    await launcher.kill(one.nonce)
    assert all(gone(pid) for pid in [*family(running), running.pid or 0, running.shim_pid or 0])
    assert not of(await launcher.list(), one.nonce).alive


async def test_kill_works_although_the_shim_hangs(
    launcher: SubprocessLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.adapters.launchers.subprocess.KILL_WAIT_S", 0.3)
    one = order(FAMILY)
    running = await launcher.launch(one)
    assert running.shim_pid is not None
    await until(lambda: len(family(running)) == 3)
    os.kill(running.shim_pid, signal.SIGSTOP)
    await launcher.kill(one.nonce)
    assert all(gone(pid) for pid in [*family(running), running.pid or 0, running.shim_pid])


async def test_a_killed_shim_leaves_nothing_behind(launcher: SubprocessLauncher) -> None:
    one = order(FAMILY)
    running = await launcher.launch(one)
    assert running.shim_pid is not None
    await until(lambda: len(family(running)) == 3)
    os.kill(running.shim_pid, signal.SIGKILL)
    end = await ended(launcher, one.nonce)
    assert end.exit is not None
    assert end.exit.code is end.exit.signal is None
    assert "supervisor was killed" in end.exit.first_error
    assert all(gone(pid) for pid in [*family(running), running.pid or 0])


async def test_changed_yields_the_nonce_of_what_ended(launcher: SubprocessLauncher) -> None:
    one = order("pass")
    changes = launcher.changed()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    await launcher.launch(one)
    assert await asyncio.wait_for(waiting, 10) == one.nonce
    await changes.aclose()  # type: ignore[attr-defined]


async def test_forget_drops_the_record_and_keeps_the_log(launcher: SubprocessLauncher) -> None:
    one = order("print('bye')", env=(("HF_TOKEN", "very-secret"),))
    running = await launcher.launch(one)
    await launcher.forget(one.nonce)
    assert len(await launcher.list()) == 1, "a running start cannot be forgotten"
    await ended(launcher, one.nonce)
    await launcher.forget(one.nonce)
    assert await launcher.list() == []
    assert logged(running) == "bye\n"
    assert "very-secret" not in (Path(running.log_path).parents[1] / records.ORDER).read_text()


async def test_a_new_control_plane_adopts_what_runs_and_what_ended(tmp_path: Path) -> None:
    first = SubprocessLauncher(tmp_path, SystemClock())
    alive, dead = order(SLEEP), order("raise SystemExit(3)")
    running = await first.launch(alive)
    await first.launch(dead)
    await ended(first, dead.nonce)
    await first.close()
    second = SubprocessLauncher(tmp_path, SystemClock())
    found = await second.list()
    assert of(found, alive.nonce) == running
    last = of(found, dead.nonce).exit
    assert last is not None
    assert last.code == 3
    assert of(found, alive.nonce).order == alive
    await second.kill(alive.nonce)
    assert gone(running.pid or 0)
    await second.close()


async def test_it_outlives_a_killed_control_plane(tmp_path: Path) -> None:
    one = order(SLEEP)
    script = f"""
import asyncio, os, signal
from pathlib import Path
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.subprocess import SubprocessLauncher
from pdctl.adapters.supervision import starts
from tests.adapters.launchers.orders import order
async def main():
    launcher = SubprocessLauncher(Path({str(tmp_path)!r}), SystemClock())
    running = await launcher.launch(order({SLEEP!r}, nonce={one.nonce!r}))
    print(running.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    plane = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    out, _ = await asyncio.wait_for(plane.communicate(), 30)
    assert plane.returncode == -signal.SIGKILL
    later = SubprocessLauncher(tmp_path, SystemClock())
    found = of(await later.list(), one.nonce)
    assert found.alive
    assert found.pid == int(out)
    await later.kill(one.nonce)
    assert gone(int(out))
    await later.close()


async def recorded(
    runtime: Path, boot_id: str, *, younger: int = 0
) -> tuple[asyncio.subprocess.Process, LaunchOrder]:
    """A stranger, and the record of a start of ours whose shim had its pid (but was older).

    Like a shim it leads a session: where ours began outside this PID namespace, /proc calls it 0.
    """
    stranger = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    theirs = procfs.look(stranger.pid)
    assert theirs is not None
    one, start = order(SLEEP), theirs.start - younger
    starts.prepare(runtime / one.nonce, one, {}, at=0.0, log_bytes=1, log_parts=2)
    records.write(str(runtime / one.nonce), records.SHIM, {
        "boot_id": boot_id, "shim_pid": stranger.pid, "shim_start": start,
        "session": theirs.session, "pid": stranger.pid, "start": start, "started_at": 1.0,
    })  # fmt: skip
    return stranger, one


async def test_a_secret_left_on_disk_by_a_crash_goes_at_adoption(tmp_path: Path) -> None:
    old = SubprocessLauncher(tmp_path, SystemClock())
    one = order(SLEEP)
    await old.launch(one)
    await old.close()
    home = tmp_path / one.nonce
    data = records.read(str(home), records.ORDER) or {}
    records.write(str(home), records.ORDER, data | {"env": ["HF_TOKEN=very-secret"]})
    new = SubprocessLauncher(tmp_path, SystemClock())
    assert of(await new.list(), one.nonce).alive
    assert "very-secret" not in (home / records.ORDER).read_text()
    await new.kill(one.nonce)
    await new.close()


async def test_a_reused_pid_is_not_mistaken_for_ours(tmp_path: Path) -> None:
    stranger, one = await recorded(tmp_path, procfs.boot_id(), younger=1)
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    found = of(await launcher.list(), one.nonce)
    assert not found.alive
    assert found.exit is not None
    await launcher.kill(one.nonce)
    await launcher.close()
    assert stranger.returncode is None
    assert not gone(stranger.pid)
    stranger.kill()
    await stranger.wait()


async def test_processes_of_an_earlier_boot_are_left_alone(tmp_path: Path) -> None:
    stranger, one = await recorded(tmp_path, "0123abcd-0000-4000-8000-0123456789ab")
    launcher = SubprocessLauncher(tmp_path, SystemClock())
    found = of(await launcher.list(), one.nonce)
    await launcher.close()
    assert not found.alive
    assert found.exit is not None
    assert found.exit.first_error == "The machine was restarted."
    assert not gone(stranger.pid)
    stranger.kill()
    await stranger.wait()


async def test_a_missing_interpreter_is_named(launcher: SubprocessLauncher) -> None:
    with pytest.raises(EngineError, match="/no/such/python: No such file or directory"):
        await launcher.launch(command("/no/such/python", "-m", "vllm"))
    assert await launcher.list() == []


async def test_an_unwritable_runtime_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    launcher = SubprocessLauncher(tmp_path / "run", SystemClock())
    with pytest.raises(EngineError, match="cannot be written"):
        await launcher.launch(order(SLEEP))
    await launcher.close()


async def test_parallel_launches_leak_no_descriptors(launcher: SubprocessLauncher) -> None:
    await launcher.list()
    before = descriptors()
    orders = [order("pass") for _ in range(50)]
    await asyncio.gather(*(launcher.launch(one) for one in orders))
    for one in orders:
        await ended(launcher, one.nonce, within_s=60)
        await launcher.forget(one.nonce)
    assert descriptors() == before
    assert await launcher.list() == []


async def test_progress_is_read_while_it_starts(launcher: SubprocessLauncher) -> None:
    script = """
import time
print("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00]")
time.sleep(600)
"""
    one = order(script)
    await launcher.launch(one)
    deadline = time.monotonic() + 10
    while (progress := of(await launcher.list(), one.nonce).progress) is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    assert (progress.stage, progress.fraction) == ("loading weights", 0.5)


async def test_old_starts_go_but_the_first_failure_stays(tmp_path: Path) -> None:
    launcher = SubprocessLauncher(tmp_path, SystemClock(), keep_starts=2)
    failure = order("raise SystemExit(7)", instance="decode-0")
    later = [order("raise SystemExit(7)", instance="decode-0") for _ in range(4)]
    for one in [failure, *later]:
        await launcher.launch(one)
        await ended(launcher, one.nonce)
        await launcher.forget(one.nonce)
    kept = [home.name for home in starts.history(tmp_path, "decode-0")]
    assert kept == [failure.nonce, *(one.nonce for one in later[-2:])]
    now, before = launcher.log_path("decode-0"), launcher.log_path("decode-0", previous=True)
    assert now is not None
    assert before is not None
    assert later[-1].nonce in str(now)
    assert later[-2].nonce in str(before)
    assert launcher.log_path("nobody") is None
    await launcher.close()


async def test_shared_memory_of_a_killed_family_is_swept(launcher: SubprocessLauncher) -> None:
    script = """
import mmap, os, sys, time
fd = os.open("/dev/shm/" + sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
os.ftruncate(fd, 4096)
kept = mmap.mmap(fd, 4096)
print("mapped"); time.sleep(600)
"""
    mine, other = f"pdctl-test-{os.getpid()}", f"pdctl-other-{os.getpid()}"
    stranger = Path("/dev/shm") / other
    stranger.write_text("not ours")
    one = order(script, mine)
    running = await launcher.launch(one)
    footprint = Path(running.log_path).parents[1] / records.FOOTPRINT
    await until(lambda: footprint.exists() and mine in footprint.read_text())
    assert running.pid is not None
    os.kill(running.pid, signal.SIGKILL)
    await ended(launcher, one.nonce)
    assert not (Path("/dev/shm") / mine).exists()
    assert stranger.exists()
    stranger.unlink()


async def test_a_shim_holds_its_lock_for_life(launcher: SubprocessLauncher) -> None:
    one = order(SLEEP)
    running = await launcher.launch(one)
    home = Path(running.log_path).parents[1]
    assert leftovers.shim_holds(home)
    await launcher.kill(one.nonce)
    assert not leftovers.shim_holds(home)
