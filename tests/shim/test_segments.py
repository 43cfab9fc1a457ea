"""Which shared memory a process has, whatever name the kernel shows for it."""

from __future__ import annotations

import os
import secrets
from _multiprocessing import SemLock  # type: ignore[import-not-found]
from pathlib import Path

from pdctl.shim import procfs


def test_a_semaphore_is_seen_by_the_name_that_it_was_given() -> None:
    name = f"mp-{secrets.token_hex(6)}"
    lock = SemLock(1, 1, 1, f"/{name}", False)
    path = Path("/dev/shm", f"sem.{name}")
    try:
        assert (path.name, path.stat().st_ino) in procfs.segments(os.getpid())
    finally:
        path.unlink()
    assert lock.name == f"/{name}"
    assert path.name not in {found for found, _ in procfs.segments(os.getpid())}
