"""The log of one slot of the router: numbered parts, of which the newest stay.

A start begins a part, and so does a part that has grown too large.
"""

from __future__ import annotations

import os
from pathlib import Path

LIMIT = 8 * 1024 * 1024
"""Bytes after which a worker begins the next part."""
KEPT = 5


def folder(home: Path, slot: int) -> Path:
    """Where the parts of one slot are."""
    return home / "log" / str(slot)


def begin(where: Path) -> tuple[Path, int]:
    """The next part and its descriptor, open for appending; the oldest make room."""
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    old = sorted(part for part in where.glob("*.log") if part.stem.isdigit())
    for part in old[: 1 - KEPT]:
        part.unlink(missing_ok=True)
    number = int(old[-1].stem) + 1 if old else 0
    path = where / f"{number:03d}.log"
    return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def turn(where: Path) -> None:
    """Let our own output go on in the next part, when the present one is full."""
    if os.fstat(1).st_size > LIMIT:
        _, fd = begin(where)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.close(fd)
