"""The folder of a start that pdctl did not begin: order, and the log that the engine writes itself.

Blocking: meant for a thread.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from pdctl.adapters.supervision import starts
from pdctl.ports import LaunchOrder
from pdctl.shim import records

NO_LOG = (
    "[pdctl] This engine was adopted while it ran. It does not write to a file, so what it says "
    "cannot be shown; a restart of the instance gives it a log.\n"
)


def prepare(
    home: Path, order: LaunchOrder, leader: tuple[int, int], *, since: float, at: float
) -> None:
    """Make the folder; `leader` is (pid, start), `since` and `at` are wall time. May OSError."""
    pid, start = leader
    starts.prepare(
        home, order, {}, at=at, attach_pid=pid, attach_start=start, attach_since=int(since)
    )
    log = home / records.LOG_DIR
    log.mkdir(mode=0o700)
    first = log / "000.log"
    if (target := output_of(pid)) is not None:
        first.symlink_to(target)
    else:
        first.write_text(NO_LOG, encoding="utf-8")
    (log / records.CURRENT).symlink_to(first.name)


def output_of(pid: int) -> Path | None:
    """The file that the process writes its output to; None: a terminal, a pipe, or unknown."""
    for number in (1, 2):
        try:
            path = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115 - no file, a name
            if stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - as above
                return Path(path)
        except OSError:
            continue
    return None


def discard(home: Path) -> None:
    """Leave no trace of a start that did not come about."""
    shutil.rmtree(home, ignore_errors=True)
