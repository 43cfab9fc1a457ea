"""One control plane per state folder: two would fight over the same instances.

The lock is the kernel's (flock), so it is gone with its process however that process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

from pdctl.domain.errors import ConflictError, OperatorError


class StateLock:
    """Holds `<state_dir>/serve.lock` from construction to `release`."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "serve.lock"
        try:
            state_dir.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644))
        except OSError as error:
            raise OperatorError(
                "state_dir_unusable",
                f"The state folder {state_dir} cannot be used: {error.strerror}.",
                "Choose another with --state-dir or PDCTL_STATE_DIR.",
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._taken() from None
        self._write(f"{os.getpid()}\n")

    def announce(self, url: str) -> None:
        """Let whoever comes second know where the admin API is."""
        self._write(f"{os.getpid()}\n{url}\n")

    def _write(self, text: str) -> None:
        """Over what is there: on a full disk there is room for that."""
        data = text.encode()
        with contextlib.suppress(OSError):  # the lock is held all the same
            os.pwrite(self._file.fileno(), data, 0)
            os.ftruncate(self._file.fileno(), len(data))

    def _taken(self) -> ConflictError:
        self._file.close()
        pid, url = holder(self.path.parent)
        where = f" at {url}" if url else ""
        return ConflictError(
            "state_dir_in_use",
            f"Another pdctl (pid {pid}) serves from {self.path.parent}{where}.",
            "Use that one, stop it, put this one in its place (pdctl serve --replace), or give "
            "this one its own folder: --state-dir or PDCTL_STATE_DIR.",
        )

    def release(self) -> None:
        """Give the folder up; safe to call twice."""
        self._file.close()


def holder(state_dir: Path) -> tuple[str, str]:
    """Pid and admin URL of who serves from the folder; the URL is empty while it starts."""
    try:
        text = (state_dir / "serve.lock").read_text(encoding="utf-8")
    except OSError:
        text = ""
    pid, _, url = text.strip().partition("\n")
    return pid or "unknown", url
