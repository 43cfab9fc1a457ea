"""The shim as a program: what it costs, what it writes, how it treats the engine."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pdctl import shim
from pdctl.shim import procfs, records

PROGRAM = Path(shim.__file__).with_name("__main__.py")
PYTHON = getattr(sys, "_base_executable", sys.executable)
BINARY = (
    "import os\nfor _ in range(64): os.write(1, b'\\xff\\x00' * 524288)\nos.write(1, b'\\nend\\n')"
)


ENV = ["A=b=c", "LC_CTYPE=C.UTF-8", "PATH=/usr/bin:/bin"]
"""LC_CTYPE is there because Python would set it by itself (PEP 538)."""


class Run:
    """One shim run by hand."""

    def __init__(
        self, home: Path, argv: list[str], also: Sequence[int] = (), **limits: int
    ) -> None:
        self.home = home
        (home / "cwd").mkdir(parents=True)
        order: dict[str, Any] = {
            "nonce": "n" * 32, "argv": argv, "argv_hash": "h", "env": ENV,
            "log_bytes": 1 << 20, "log_parts": 4, **limits,
        }  # fmt: skip
        records.write(str(home), records.ORDER, order)
        ready, theirs = os.pipe()
        command = [sys.executable, "-S", "-E", str(PROGRAM), str(home), str(theirs)]
        self.shim = subprocess.Popen(
            command,
            pass_fds=(theirs, *also),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs)
        with os.fdopen(ready) as pipe:
            self.word = pipe.read()

    def record(self, name: str) -> dict[str, Any]:
        """A record that must be there."""
        return json.loads((self.home / name).read_text())  # type: ignore[no-any-return]

    def exit(self, within_s: float = 20) -> dict[str, Any]:
        """How it ended."""
        self.shim.wait(within_s)
        return self.record(records.EXIT)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """A maker of runs; what still runs at the end is killed."""
    made: list[Run] = []

    def make(script: str, **limits: Any) -> Run:
        argv = [PYTHON, "-S", "-E", "-u", "-c", script]
        made.append(Run(tmp_path / str(len(made)), argv, **limits))
        return made[-1]

    yield make
    for one in made:
        if one.shim.poll() is None:
            one.shim.send_signal(signal.SIGUSR1)
            one.shim.wait(20)


Maker = Callable[..., Run]


def wait_for(what: Callable[[], object], within_s: float = 15) -> None:
    """Until `what()` is true."""
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_is_small(run: Maker) -> None:
    one = run("import time; time.sleep(600)")
    assert one.word == "ok"
    status = Path(f"/proc/{one.shim.pid}/status").read_text()
    rss_kb = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    assert rss_kb < 16 * 1024


def test_it_imports_nothing_heavy() -> None:
    root = str(PROGRAM.parents[2])
    code = (
        f"import sys; sys.path.append({root!r}); import pdctl.shim.supervise; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"asyncio", "dataclasses", "subprocess", "typing", "pathlib", "hashlib", "inspect"}
    loaded = set(done.stdout.split())
    assert "pdctl.shim.supervise" in loaded
    assert not heavy & loaded
    ours = {name for name in loaded if name.startswith("pdctl.") and ".shim" not in name}
    assert not ours


def test_records_tell_who_runs(run: Maker) -> None:
    one = run("import time; time.sleep(600)")
    who = one.record(records.SHIM)
    leader = procfs.look(who["pid"])
    assert leader is not None
    assert leader.identity == (who["pid"], who["start"])
    assert who["shim_pid"] == one.shim.pid == who["session"]
    assert who["boot_id"] == procfs.boot_id()


def test_a_killed_shim_takes_the_leader_along(run: Maker) -> None:
    one = run("import time; time.sleep(600)")
    who = one.record(records.SHIM)
    one.shim.kill()
    one.shim.wait()
    wait_for(lambda: not procfs.alive(who["pid"], who["start"]), within_s=5)
    assert not (one.home / records.EXIT).exists()


def test_the_console_cannot_interrupt_it(run: Maker) -> None:
    one = run("import time; time.sleep(600)")
    for number in (signal.SIGINT, signal.SIGHUP):
        one.shim.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        one.shim.wait(0.5)


def test_the_engine_finds_clean_signals_and_the_exact_environment(run: Maker) -> None:
    one = run(
        "import os, signal\n"
        "print(sorted(os.environ.items()))\n"
        "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0])\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), sorted(os.listdir('/proc/self/fd')))"
    )
    lines = one.exit()["last_lines"]
    assert lines[0] == str([tuple(pair.split("=", 1)) for pair in ENV])
    # Python ignores two; the C library keeps 32 and 33 for itself, and leaves them ignored in what
    # posix_spawn starts (make does so), where nobody can change it.
    others = {signal.SIGPIPE, signal.SIGXFSZ, 32, 33}
    ignored = {number for number in range(1, 65) if int(lines[1], 16) >> (number - 1) & 1}
    assert ignored <= others
    assert lines[2] == "set() ['0', '1', '2', '3']", "3 is the listing itself"


def test_the_engine_inherits_nothing_that_the_control_plane_had_open(
    run: Maker, tmp_path: Path
) -> None:
    script = (
        "import os\nfor n in os.listdir('/proc/self/fd'):\n"
        "  if os.path.exists(f'/proc/self/fd/{n}'): print(os.readlink(f'/proc/self/fd/{n}'))"
    )
    with (tmp_path / "open").open("w") as leaked:
        high = os.dup2(leaked.fileno(), 200)
        try:
            said = " ".join(run(script, also=(leaked.fileno(), high)).exit()["last_lines"])
        finally:
            os.close(high)
    assert "pipe" in said
    assert str(tmp_path / "open") not in said


def test_huge_binary_output_neither_blocks_nor_grows(run: Maker) -> None:
    one = run(BINARY)
    end = one.exit(60)
    assert end["code"] == 0
    assert end["last_lines"][-1] == "end"
    sizes = [part.stat().st_size for part in (one.home / "log").glob("[0-9]*.log")]
    assert len(sizes) <= 4
    assert sum(sizes) <= 4 * 2 * (1 << 20)


def test_whole_lines_survive_a_flood(run: Maker) -> None:
    one = run("for n in range(30000): print(f'{n:06d}', 'x' * 60)", log_bytes=1 << 17, log_parts=99)
    assert one.exit(60)["dropped_bytes"] == 0
    text = b"".join(p.read_bytes() for p in sorted((one.home / "log").glob("[0-9]*.log")))
    assert [int(line[:6]) for line in text.splitlines()] == list(range(30000))


def test_an_order_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(PROGRAM), str(tmp_path)], check=False, timeout=20
    )
    assert done.returncode == 2


def test_two_shims_never_hold_one_start(run: Maker) -> None:
    one = run("import time; time.sleep(600)")
    second = subprocess.run(
        [sys.executable, "-S", "-E", str(PROGRAM), str(one.home)], check=False, timeout=20
    )
    assert second.returncode == 3
    assert one.shim.poll() is None


def test_it_waits_for_nobody_who_closed_the_output(run: Maker) -> None:
    one = run("import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(9)")
    begun = os.times()
    assert one.exit()["code"] == 9
    spent = os.times()
    busy = spent.children_user + spent.children_system - begun.children_user - begun.children_system
    assert busy < 0.5, "the shim spun on the closed pipe"


def test_a_disk_that_takes_no_record_keeps_nobody_alive(run: Maker) -> None:
    one = run(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    who = one.record(records.SHIM)
    log = one.home / "log" / records.CURRENT
    wait_for(lambda: log.read_text().endswith("\n"))
    child = procfs.look(int(log.read_text()))
    assert child is not None
    resource.prlimit(one.shim.pid, resource.RLIMIT_FSIZE, (0, 0))
    os.kill(who["pid"], signal.SIGKILL)
    assert one.shim.wait(20) == 5
    assert not procfs.alive(*child.identity)
    assert records.read(str(one.home), records.EXIT) is None


def test_the_last_record_has_its_room_reserved(run: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    one = run("import time; time.sleep(600)")
    spare = one.home / records.SPARE
    assert spare.stat().st_blocks * 512 >= records.SPARE_BYTES
    really = records.write

    def full(home: str, name: str, data: Any) -> None:
        if spare.exists():
            raise OSError(28, "No space left on device")
        really(home, name, data)

    monkeypatch.setattr(records, "write", full)
    assert records.write_last(str(one.home), "test.json", {"a": 1})
    assert one.record("test.json") == {"a": 1}
    spare.touch()
    monkeypatch.setattr(records, "write", really)
    os.kill(one.record(records.SHIM)["pid"], signal.SIGKILL)
    assert one.exit()["signal"] == 9
    assert not spare.exists()
