"""A shim for an engine that runs already: it watches and ends it, but did not start it.

Law: what it did not start it cannot reap, so the exit code stays unknown; the log is the engine's
own file, if it writes to one. It goes by identity: nothing else is known of such a family.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from pdctl.shim import capture, family, procfs, records, segments, supervise

UNKNOWN = "It was adopted while it ran, so how it ended is not known."
_TAIL = 64 * 1024


class Attached(supervise.Shim):
    """One engine that was started without us."""

    def __init__(self, home: str, order: dict[str, object]) -> None:
        self.home, self.order = home, order
        self.memory = capture.Memory()
        self.asked = ""
        self.status = None
        self._pid, self._start = (int(str(order[f"attach_{what}"])) for what in ("pid", "start"))
        self.started_at = float(str(order["attach_since"]))
        self.leader = None
        self.members = {(self._pid, self._start)}
        self.segments = set()
        self._next_sample = 0.0
        self._wakeup = os.pipe()

    def start(self) -> None:
        """Hold on to the leader and say who it is; OSError when it has ended."""
        for fd in self._wakeup:
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        self._fd = os.pidfd_open(self._pid)
        self.leader = procfs.look(self._pid)
        if self.leader is None or not procfs.alive(self._pid, self._start):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), "the engine")
        records.reserve(self.home)
        self._sample()
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._say_who()

    def run(self) -> bool:
        """Until the leader has ended and nobody of its family is left; False: it is unrecorded."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._wakeup[0], select.POLLIN)
        ended = False
        while not ended:
            if time.monotonic() >= self._next_sample:
                self._sample()
            pause = max(self._next_sample - time.monotonic(), 0.0)
            for fd, _ in poll.poll(pause * 1000):
                if fd == self._fd:
                    ended = True
                else:
                    os.read(fd, 4096)
        at = supervise.now()
        self._sample()
        grace = 0.0 if self.asked == "kill" else supervise.GRACE_S
        survivors = family.end(self.living, grace_s=grace)
        swept = segments.sweep(self.segments, 0.0)
        self._recall()
        return supervise.record_exit(
            self.home, self.memory, code=None, at=at, started_at=self.started_at,
            extra={"asked": self.asked, "survivors": survivors, "swept": swept},
        )  # fmt: skip

    def living(self) -> dict[int, procfs.Proc]:
        """The leader, what descends from it, and what was seen to before its parent died.

        The process group is its family's where it leads one: a group outlives its leader.
        """
        table = {pid: proc for pid, proc in procfs.everyone().items() if not proc.dead}
        group = self._pid if self.leader is not None and self.leader.group == self._pid else -1
        ours = {
            pid
            for pid, proc in table.items()
            if proc.identity in self.members or proc.group == group
        }
        ours |= procfs.descendants(ours, table)
        ours.discard(os.getpid())
        return {pid: table[pid] for pid in ours}

    def abandon(self) -> None:
        """It ran before us: trouble of ours is no reason to end it."""

    def _pass_on(self, number: int) -> None:
        if self.leader is not None:
            family.send(self.leader, number)

    def _recall(self) -> None:
        """The last lines of its own log, which did not pass through us."""
        try:
            with open(f"{self.home}/{records.LOG_DIR}/{records.CURRENT}", "rb") as file:  # noqa: PTH123 - no pathlib in the shim
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                self.memory.add(file.read())
        except OSError:
            pass
        self.memory.close()
        self.memory.first_error = self.memory.first_error or UNKNOWN


def shim_of(home: str, order: dict[str, object]) -> supervise.Shim:
    """The shim that the order wants: of an engine to start, or of one that runs already."""
    kind = Attached if "attach_pid" in order else supervise.Shim
    return kind(home, order)
