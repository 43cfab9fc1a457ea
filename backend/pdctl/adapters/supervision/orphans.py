"""Every engine process of this machine, from the process table (ports.EngineFinder).

Blocking work goes to a thread: a look costs some tens of milliseconds. Of other users' processes
only the command line is known, and that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM

import psutil

from pdctl.adapters.supervision import starts
from pdctl.domain import orphans
from pdctl.domain.orphans import Found, Ours, Process, Shim
from pdctl.ports import Ended
from pdctl.shim import family, procfs, segments

FAMILY_GRACE_S = 1.5
"""Between SIGTERM and SIGKILL for what outlives its leader."""
_DRIVER_S = 5.0
_GPU = ("--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits")


class MachineEngines:
    """Looks at the machine, and ends what is told to end."""

    async def find(self, ours: Ours) -> tuple[Found, ...]:
        """Every engine, and who answers for it."""
        return await asyncio.to_thread(look, ours)

    async def end(self, found: Found, grace_s: float) -> Ended:
        """SIGTERM to the leader, then the whole family, then its shared memory."""
        return await asyncio.to_thread(end, found, grace_s)


def look(ours: Ours) -> tuple[Found, ...]:
    """Every engine, and who answers for it."""
    table = _table()
    shims = [shim for pid, one in table.items() if (shim := _shim(pid, one.words)) is not None]
    wanted = {one.pid for each in orphans.families(table) for one in each.members}
    if not wanted:
        return ()
    ports, memory = _listening(wanted), _gpu_memory()
    for pid in wanted:
        known = _details(table[pid])
        if known is None:  # it has ended meanwhile
            del table[pid]
            continue
        table[pid] = replace(
            known, ports=tuple(sorted(ports.get(pid, ()))), gpu_memory=memory.get(pid)
        )
    return tuple(orphans.classify(one, ours) for one in orphans.families(table, shims))


def end(found: Found, grace_s: float) -> Ended:
    """End exactly that family, by identity; a shim that watches it sees it and ends too."""
    members = {(one.pid, one.start) for one in found.family.members}
    mapped: set[tuple[str, int]] = set()

    def living() -> dict[int, procfs.Proc]:
        table = {pid: proc for pid, proc in procfs.everyone().items() if not proc.dead}
        pids = {pid for pid, proc in table.items() if proc.identity in members}
        pids |= procfs.descendants(pids, table)
        pids -= {os.getpid(), os.getppid()}
        members.update(table[pid].identity for pid in pids)
        mapped.update(segments.seen(pids))
        return {pid: table[pid] for pid in pids}

    leader = living().get(found.family.leader.pid)
    if leader is not None:
        family.send(leader, SIGTERM)
        give_up = time.monotonic() + grace_s
        while procfs.alive(*leader.identity) and time.monotonic() < give_up:
            living()
            time.sleep(0.05)
    survivors = family.end(living, grace_s=FAMILY_GRACE_S)
    return Ended(len(members), tuple(survivors), tuple(segments.sweep(mapped, 0.0)))


def ours_of(runtime_dir: Path) -> Ours:
    """What a folder of run-time records says is its own, where no pdctl serve can be asked."""
    known = {
        home.name: order.instance_id
        for home in starts.homes(runtime_dir)
        if not starts.is_forgotten(home) and (order := starts.order_of(home)) is not None
    }
    return Ours(os.path.realpath(runtime_dir), known)


def _table() -> dict[int, Process]:
    """The process table, with command lines and nothing more yet."""
    found = {}
    for pid, proc in procfs.everyone().items():
        words = tuple(procfs.arguments(pid))
        while words and not words[-1]:
            words = words[:-1]
        if words and not proc.dead:
            found[pid] = Process(pid, proc.start, proc.parent, proc.group, words)
    return found


def _shim(pid: int, words: tuple[str, ...]) -> Shim | None:
    home = orphans.shim_home(words)
    if not home:
        return None
    folder, nonce = Path(os.path.realpath(home)).parent, Path(home).name
    order, who = starts.order_of(Path(home)), starts.identity_of(Path(home))
    leader = (who.pid, who.start) if who is not None and who.shim_pid == pid else None
    instance = order.instance_id if order is not None else ""
    return Shim(pid, str(folder), nonce, instance, leader, _is_served(folder.parent))


def _is_served(state_dir: Path) -> bool:
    """Whether a pdctl serve holds that state folder now; its lock is looked at, never taken."""
    try:
        inode = str((state_dir / "serve.lock").stat().st_ino)
        locks = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return any(inode in line.replace(":", " ").split() for line in locks.splitlines())


def _details(one: Process) -> Process | None:
    """With what only its owner (or root) may know, where that is us; None when it has ended."""
    try:
        process = psutil.Process(one.pid)
        with process.oneshot():
            uid, user = process.uids().real, process.username()
            since, memory = process.create_time(), process.memory_info().rss
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return replace(one, readable=False)
    readable = os.geteuid() in (0, uid)
    env = ((name, procfs.variable(one.pid, name)) for name in orphans.VARIABLES) if readable else ()
    return replace(
        one, since=since, user=user, readable=readable, memory=memory,
        env=tuple((name, value) for name, value in env if value),
    )  # fmt: skip


def _listening(pids: Collection[int]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            if one.pid is not None and one.pid in pids and one.status == psutil.CONN_LISTEN:
                found.setdefault(one.pid, set()).add(getattr(one.laddr, "port", 0))
    return found


def _gpu_memory() -> dict[int, int]:
    """Bytes by pid, as the NVIDIA driver counts them; empty where there is none to ask."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    try:
        said = subprocess.run(
            (program, *_GPU), capture_output=True, text=True, timeout=_DRIVER_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = (line.split(",") for line in said.splitlines())
    sized = ((row[0].strip(), row[1].strip()) for row in rows if len(row) == 2)
    return {
        int(pid): int(size) * 2**20
        for pid, size in sized
        if pid.isdecimal() and size.isdecimal()
    }  # fmt: skip
