"""Shared memory that a killed engine leaves in /dev/shm, told apart from everyone else's.

Law: remove only what our processes were seen to map, only while it is the same file, only when no
living process maps it. (vLLM names are random: psm_*, sem.*; a pattern would hit other engines.)
"""

from __future__ import annotations

import os

from pdctl.shim import procfs


def seen(pids: set[int]) -> set[tuple[str, int]]:
    """(name, inode) of everything that `pids` have mapped now."""
    found: set[tuple[str, int]] = set()
    for pid in pids:
        found |= procfs.segments(pid)
    return found


def existing(recorded: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of `recorded` that have not been removed since."""
    return {one for one in recorded if _inode(one[0]) == one[1]}


def sweep(recorded: set[tuple[str, int]], born_after: float) -> list[str]:
    """Remove what is left of `recorded`; the names removed. `born_after` is wall time, seconds."""
    left = {one for one in recorded if _ours(one, born_after)}
    if left:
        left -= seen({pid for pid in procfs.everyone() if pid != os.getpid()})
    removed = []
    for name, _ in sorted(left):
        try:
            os.unlink(procfs.SHM + name)  # noqa: PTH108 - no pathlib in the shim
        except OSError:
            continue
        removed.append(name)
    return removed


def _ours(segment: tuple[str, int], born_after: float) -> bool:
    name, inode = segment
    found = _stat(name)
    if found is None or found.st_ino != inode or found.st_uid != os.getuid():
        return False
    # One second of grace: the file's clock ticks more coarsely than the one we read.
    return found.st_ctime >= born_after - 1.0


def _inode(name: str) -> int | None:
    found = _stat(name)
    return found.st_ino if found else None


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.lstat(procfs.SHM + name)
    except OSError:
        return None
