"""All processes of one instance, and how to end them.

Two ways to find them: from inside (the shim is their subreaper, so they are its descendants) and
from outside, after the shim was killed (by recorded identity, by mark, then by session).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from pdctl.shim import procfs, records

TRACKER = "multiprocessing.resource_tracker"
"""Python's janitor of shared memory ends by itself after its clients, so it is killed last."""
Find = Callable[[], "dict[int, procfs.Proc]"]


def inside(root: int) -> dict[int, procfs.Proc]:
    """The living descendants of `root`."""
    table = procfs.everyone()
    found = procfs.descendants({root}, table)
    return {pid: table[pid] for pid in found if not table[pid].dead}


def outside(
    recorded: set[tuple[int, int]], nonce: str, session: int | None
) -> dict[int, procfs.Proc]:
    """The living processes of a start whose shim is gone.

    A session id cannot be reused while a member lives, so one member that is surely ours vouches
    for all others of its session; without one, the session says nothing.
    """
    table = {pid: proc for pid, proc in procfs.everyone().items() if not proc.dead}
    ours = {pid for pid, proc in table.items() if proc.identity in recorded or marked(pid, nonce)}
    if session is not None and any(table[pid].session == session for pid in ours):
        ours |= {pid for pid, proc in table.items() if proc.session == session}
    ours |= procfs.descendants(ours, table)
    ours.discard(os.getpid())
    return {pid: table[pid] for pid in ours}


def marked(pid: int, nonce: str) -> bool:
    """Whether `pid` carries the nonce: in its environment, or in the title that vLLM gave it."""
    if procfs.has_variable(pid, records.NONCE_VARIABLE, nonce):
        return True
    return f"-{nonce[:8]}::" in procfs.command(pid)


def is_tracker(pid: int) -> bool:
    """Whether `pid` is a multiprocessing resource tracker."""
    return TRACKER in procfs.command(pid)


def send(proc: procfs.Proc, number: int) -> None:
    """Signal that very process: the pid file descriptor is taken before the identity is checked."""
    try:
        fd = os.pidfd_open(proc.pid)
    except OSError:
        return
    try:
        if procfs.alive(proc.pid, proc.start):
            signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)


def end(find: Find, *, grace_s: float, tick: Callable[[float], None] = time.sleep) -> list[int]:
    """SIGTERM, `grace_s` later SIGKILL, until `find` finds nobody; the pids that would not die.

    `tick` is called with a pause in seconds between looks: the shim reaps and reads there.
    """
    told: set[tuple[int, int]] = set()
    begun = time.monotonic()
    while members := find():
        spent = time.monotonic() - begun
        if spent > grace_s + 5.0:
            return sorted(members)
        for proc in members.values():
            if spent >= grace_s:
                if spent >= grace_s + 1.0 or not is_tracker(proc.pid):
                    send(proc, signal.SIGKILL)
            elif proc.identity not in told:
                told.add(proc.identity)
                send(proc, signal.SIGTERM)
        tick(0.02 if spent < 0.2 else 0.1)
    return []
