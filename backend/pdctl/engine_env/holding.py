"""The lock that lets one process build environments while the others wait and see who is building.

Law: the lock is the kernel's (flock): it ends with its holder, however that dies. The file's text
is only for the eyes of those who wait; nothing is decided by it.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 0.2


class BuildLock:
    """A held lock; `tell` publishes what the holder is doing."""

    def __init__(self, descriptor: int) -> None:
        """Wraps the descriptor that carries the flock."""
        self._descriptor = descriptor
        self._started = time.monotonic()

    def tell(self, doing: str) -> None:
        """Writes who holds the lock, what it does, and since when (monotonic seconds)."""
        text = json.dumps({"pid": os.getpid(), "doing": doing, "since": self._started}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)


def describe_holder(path: Path) -> str:
    """One line on who holds the lock, from what the holder last wrote."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        seconds = max(0.0, time.monotonic() - float(holder["since"]))
        return f"process {holder['pid']} is at it for {seconds:.0f} s: {holder['doing']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process is at it"  # caught between its truncate and its write


@contextmanager
def hold(path: Path, waiting: Callable[[str], None]) -> Iterator[BuildLock]:
    """Takes the lock at path, calling waiting with the holder's description until it is free."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting(describe_holder(path))
                time.sleep(POLL_SECONDS)
        yield BuildLock(descriptor)
    finally:
        os.close(descriptor)
