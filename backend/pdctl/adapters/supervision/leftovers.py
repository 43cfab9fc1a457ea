"""What to do when a shim is gone without its last words: end its family, and say what is known.

Blocking: meant for a thread. Everything here is by recorded identity, never by a pid alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

from pdctl.adapters.supervision import logs, starts
from pdctl.domain.instance import ExitInfo
from pdctl.shim import capture, family, procfs, records, segments, supervise

RECORD_S = 5.0
"""How long a shim may take to say who it is."""
_PROGRAM = "pdctl/shim/__main__.py"
_TITLE = re.compile(r"-([0-9a-f]{8})::")
"""The first half of a nonce in the title of a process that vLLM renamed."""


def shim_holds(home: Path) -> bool:
    """Whether a shim lives for this start, recorded or not yet (it holds the lock all its life)."""
    try:
        fd = os.open(home / records.LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def identity(home: Path) -> starts.Identity | None:
    """Who runs the start; a shim that has only just begun is given the time to say so.

    When the record is lost or damaged while the shim lives, the process table knows it as well.
    """
    deadline = time.monotonic() + RECORD_S
    while (who := starts.identity_of(home)) is None and time.monotonic() < deadline:
        if (home / records.SHIM).exists() or not shim_holds(home):  # written whole, or damaged
            return starts.identity_of(home) or by_command(home)
        time.sleep(0.05)
    if who is None or not procfs.alive(who.shim_pid, who.shim_start):
        return by_command(home) or who
    return who


def by_command(home: Path) -> starts.Identity | None:
    """The living shim of `home` and its leader, found by the shim's command line."""
    shim = next((pid for pid, nonce in shims(home.parent).items() if nonce == home.name), None)
    table = procfs.everyone()
    if shim is None or shim not in table:
        return None
    children = [proc for proc in table.values() if proc.parent == shim and proc.group == proc.pid]
    if not children:
        return None
    leader = min(children, key=lambda proc: (proc.start, proc.pid))
    return starts.Identity(
        procfs.boot_id(), shim, table[shim].start, table[shim].session, leader.pid, leader.start,
        started_at=_born(leader.start),
    )  # fmt: skip


def shims(runtime_dir: Path) -> dict[int, str]:
    """The living shims of all starts below `runtime_dir`, by pid, with the nonce of each."""
    ours, found = os.path.realpath(runtime_dir), {}
    for pid, proc in procfs.everyone().items():
        words = procfs.arguments(pid)
        if proc.dead or len(words) < 5 or not words[3].endswith(_PROGRAM):
            continue
        home = words[4]
        if os.path.realpath(os.path.dirname(home)) == ours:  # noqa: PTH120 - a word, no file
            found[pid] = os.path.basename(home)  # noqa: PTH119 - as above
    return found


def lost(runtime_dir: Path, nonces: set[str], known: set[str]) -> dict[str, set[int]]:
    """Living processes by nonce: of our shims, and of `nonces`; never of the starts in `known`."""
    table = {pid: proc for pid, proc in procfs.everyone().items() if not proc.dead}
    found: dict[str, set[int]] = {}
    for pid, nonce in shims(runtime_dir).items():
        found.setdefault(nonce, set()).update({pid}, procfs.descendants({pid}, table))
    wanted = (nonces | found.keys()) - known
    for pid in table:
        nonce = procfs.variable(pid, records.NONCE_VARIABLE)
        if nonce not in wanted and (title := _TITLE.search(procfs.command(pid))):
            nonce = next((one for one in wanted if one.startswith(title.group(1))), "")
        if nonce in wanted:
            found.setdefault(nonce, set()).update({pid}, procfs.descendants({pid}, table))
    ours = {os.getpid(), os.getppid()}
    return {nonce: pids - ours for nonce, pids in found.items() if nonce in wanted and pids - ours}


def end_lost(home: Path, pids: set[int]) -> list[int]:
    """SIGKILL the processes of a start that has no record; pids that would not die."""
    table = procfs.everyone()
    members = {table[pid].identity for pid in pids if pid in table}
    shim = next((pid for pid, nonce in shims(home.parent).items() if nonce == home.name), None)
    session = table[shim].session if shim in table else None
    mapped: set[tuple[str, int]] = set()

    def living() -> dict[int, procfs.Proc]:
        found = family.outside(members, home.name, session)
        mapped.update(segments.seen(set(found)))
        return found

    survivors = family.end(living, grace_s=0.0)
    segments.sweep(mapped, 0.0)
    return survivors


def clear(
    home: Path, nonce: str, who: starts.Identity | None = None, *, with_shim: bool = False
) -> list[int]:
    """SIGKILL whatever still runs of a start and remove its shared memory; pids that would not die.

    `who` is what was known of it before. Does nothing to processes of an earlier boot: their pids
    mean others now.
    """
    who = starts.identity_of(home) or who
    members, mapped = starts.footprint_of(home)
    if who is not None and who.boot_id != procfs.boot_id():
        return []
    if who is not None:
        members |= {(who.pid, who.start)}
        if with_shim:
            members |= {(who.shim_pid, who.shim_start)}
    session = who.session if who else None

    def living() -> dict[int, procfs.Proc]:
        found = family.outside(members, nonce, session)
        mapped.update(segments.seen(set(found)))
        if who is not None and not with_shim:
            found.pop(who.shim_pid, None)
        return found

    survivors = family.end(living, grace_s=0.0)
    segments.sweep(mapped, who.started_at if who else 0.0)
    return survivors


def conclude(home: Path, nonce: str, why: str, who: starts.Identity | None, at: float) -> ExitInfo:
    """End what is left, and write the exit that the shim could not; `why` is a sentence.

    The known cause comes first: what the log says may be of an hour ago. `at` is wall time.
    """
    survivors = clear(home, nonce, who, with_shim=True)
    lines = logs.read_tail(home / records.LOG_DIR, 40)
    memory = capture.Memory()
    for line in lines:
        memory.add(line.encode() + b"\n")
    memory.first_error = why
    with contextlib.suppress(
        OSError
    ):  # a full disk, a folder that is gone: it is told all the same
        supervise.record_exit(
            str(home),
            memory,
            code=None,
            started_at=who.started_at if who else 0.0,
            extra={"asked": "", "survivors": survivors, "by": "launcher", "why": why},
        )
    return ExitInfo(None, None, at, tuple(lines), why, tuple(survivors))


def _born(start: int) -> float:
    """Wall time at which a process with that start time (ticks after boot) began."""
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        boot = next((int(line.split()[1]) for line in file if line.startswith("btime ")), 0)
    return boot + start / os.sysconf("SC_CLK_TCK")
