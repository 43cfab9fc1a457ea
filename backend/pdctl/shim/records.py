"""The files of one start, by which shim and launcher talk without ever being alive together.

Law: a record is written whole or not at all (a temporary file, then a rename).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

# Strings, not pathlib: the shim stays small.
ORDER = "order.json"
"""Written by the launcher before the shim starts: argv, env, limits."""
LOCK = "lock"
"""Held with flock for as long as the shim lives."""
SHIM = "shim.json"
"""Written by the shim once the leader runs: the identity of both."""
FOOTPRINT = "footprint.json"
"""Rewritten by the shim as it changes: every process and shared-memory segment of the instance."""
EXIT = "exit.json"
"""Written last: how the leader ended and what was cleaned up."""
SPARE = "spare"
"""Room on the disk, kept from the start for EXIT: an engine may well die of a full disk."""
SPARE_BYTES = 64 * 1024
LOG_DIR = "log"
CURRENT = "current.log"
"""A symbolic link in LOG_DIR to the part being written."""
NONCE_VARIABLE = "PDCTL_NONCE"
"""Environment variable that marks every process of a start."""


def write(home: str, name: str, data: Mapping[str, object]) -> None:
    """Write a record atomically and durably; readable by its owner only (it may hold secrets)."""
    path = f"{home}/{name}"
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)  # noqa: PTH105 - no pathlib in the shim


def reserve(home: str) -> None:
    """Take the room for the last record; without it the shim does its best."""
    try:
        fd = os.open(f"{home}/{SPARE}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        os.posix_fallocate(fd, 0, SPARE_BYTES)
    except OSError:
        pass
    finally:
        os.close(fd)


def write_last(home: str, name: str, data: Mapping[str, object]) -> bool:
    """`write`, with the room that was reserved if there is no other; False when it is in vain."""
    try:
        write(home, name, data)
    except OSError:
        _release(home)
        try:
            write(home, name, data)
        except OSError:
            return False
    _release(home)
    return True


def _release(home: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(f"{home}/{SPARE}")  # noqa: PTH108 - no pathlib in the shim


def read(home: str, name: str) -> dict[str, object] | None:
    """A record, or None when it is absent or damaged."""
    try:
        with open(f"{home}/{name}", encoding="utf-8") as file:  # noqa: PTH123 - as above
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
