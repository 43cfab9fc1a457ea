"""The shim's life: start the leader, keep its log, and when it ends end everything it started.

Law: one main thread, woken by the pipe, by a signal or by the next sample; it survives its parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from types import FrameType

from pdctl.shim import capture, family, procfs, records, segments, spawn

GRACE_S = 1.5
"""Between SIGTERM and SIGKILL for what outlives its leader: a dead engine has nothing to save."""
_PIPE_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031
_SAMPLE_SOON_S, _SAMPLE_LATER_S, _SETTLED_S = 2.0, 15.0, 180.0


_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)


class Shim:
    """One start of one instance."""

    def __init__(self, home: str, order: dict[str, object]) -> None:
        self.home, self.order = home, order
        self.memory = capture.Memory()
        log = capture.RotatingLog(
            f"{home}/{records.LOG_DIR}", _int(order["log_bytes"]), _int(order["log_parts"])
        )
        self.writer = capture.Writer(log)
        self.asked = ""
        """"terminate" or "kill" when somebody wanted this end."""
        self.leader: procfs.Proc | None = None
        self.status: int | None = None
        """Wait status of the leader once it has ended."""
        self.ended_at = 0.0
        """When the leader ended, wall time."""
        self.usage: dict[str, float] = {}
        self.members: set[tuple[int, int]] = set()
        self.segments: set[tuple[str, int]] = set()
        self.started_at = now()
        self._next_sample = 0.0
        self._wakeup = os.pipe()
        self.output = -1

    def start(self) -> None:
        """Run the leader and say who it is; OSError when it cannot be executed."""
        for fd in self._wakeup:
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        self.output, theirs = os.pipe()
        os.set_blocking(self.output, False)
        with contextlib.suppress(OSError):  # over this user's quota: the default size serves too
            fcntl.fcntl(theirs, _F_SETPIPE_SZ, _PIPE_BYTES)
        records.reserve(self.home)
        spawn.become_subreaper()
        argv = [str(part) for part in _list(self.order["argv"])]
        env = dict(str(pair).split("=", 1) for pair in _list(self.order["env"]))
        pid = spawn.start(argv, env, f"{self.home}/cwd", theirs)
        os.close(theirs)
        self.leader = procfs.look(pid)
        self.writer.start()
        self._say_who()

    def run(self) -> bool:
        """Until the leader has ended and nobody of its family is left; False: it is unrecorded."""
        poll = select.poll()
        poll.register(self.output, select.POLLIN)
        poll.register(self._wakeup[0], select.POLLIN)
        self._poll = poll
        while self.status is None:
            if time.monotonic() >= self._next_sample:
                self._sample()
            self._turn(self._next_sample - time.monotonic())
        self._sample()
        grace = 0.0 if self.asked == "kill" else GRACE_S
        survivors = family.end(self.living, grace_s=grace, tick=self._turn)
        return self._finish(survivors)

    def living(self) -> dict[int, procfs.Proc]:
        """Every process of the instance that lives."""
        return family.inside(os.getpid())

    def abandon(self) -> None:
        """Something of ours failed: leave nothing running."""
        family.end(self.living, grace_s=0.0)

    def _turn(self, timeout_s: float) -> None:
        """Wait for bytes or a signal; take both."""
        for fd, _ in self._poll.poll(max(timeout_s, 0.0) * 1000):
            if fd == self.output:
                self._read()
            else:
                os.read(fd, 4096)
        self._reap()

    def _read(self) -> None:
        try:
            data = os.read(self.output, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._poll.unregister(self.output)
            return
        self.memory.add(data)
        self.writer.put(data)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.leader is not None and pid == self.leader.pid:
                self.status, self.ended_at = status, now()
                self.usage = {
                    "user_s": usage.ru_utime,
                    "system_s": usage.ru_stime,
                    "max_rss_bytes": usage.ru_maxrss * 1024,
                }

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self.asked = self.asked or "terminate"
            self._pass_on(signal.SIGTERM)
        elif number == signal.SIGUSR1:
            self.asked = "kill"
            for proc in self.living().values():
                if not family.is_tracker(proc.pid):
                    family.send(proc, signal.SIGKILL)

    def _pass_on(self, number: int) -> None:
        if self.leader is not None and self.status is None:
            os.kill(self.leader.pid, number)  # our own child, not reaped yet: the pid is surely it

    def _sample(self) -> None:
        """Record who and what belongs to the instance, for the case that we are killed."""
        found = self.living()
        members = {proc.identity for proc in found.values()}
        mapped = segments.existing(self.segments) | segments.seen(set(found))
        if members != self.members or mapped != self.segments:
            self.members, self.segments = members, mapped
            data = {"members": sorted(members), "segments": sorted(mapped)}
            with contextlib.suppress(OSError):  # a full disk: marks and session still find them
                records.write(self.home, records.FOOTPRINT, data)
        settled = now() - self.started_at > _SETTLED_S
        self._next_sample = time.monotonic() + (_SAMPLE_LATER_S if settled else _SAMPLE_SOON_S)

    def _say_who(self) -> None:
        leader, me = self.leader, procfs.look(os.getpid())
        assert leader is not None and me is not None  # noqa: S101, PT018 - both are unreaped
        records.write(self.home, records.SHIM, {
            "nonce": self.order["nonce"],
            "argv_hash": self.order["argv_hash"],
            "boot_id": procfs.boot_id(),
            "shim_pid": me.pid,
            "shim_start": me.start,
            "session": me.session,
            "pid": leader.pid,
            "start": leader.start,
            "pgid": leader.pid,
            "started_at": self.started_at,
        })  # fmt: skip

    def _finish(self, survivors: list[int]) -> bool:
        for _ in range(16):  # whatever is still in the pipe; survivors may hold it open for ever
            self._turn(0)
        self.memory.close()
        swept = segments.sweep(self.segments, self.started_at)
        self.writer.finish(2.0)
        code = os.waitstatus_to_exitcode(self.status or 0)
        return record_exit(
            self.home, self.memory, code=code, at=self.ended_at, started_at=self.started_at,
            extra={
                "asked": self.asked, "usage": self.usage, "survivors": survivors,
                "swept": swept, "dropped_bytes": self.writer.dropped,
            },
        )  # fmt: skip


def record_exit(
    home: str,
    memory: capture.Memory,
    *,
    code: int | None,
    at: float = 0.0,
    started_at: float,
    extra: dict[str, object],
) -> bool:
    """Write how it ended, and when (the leader; its family may take longer).

    `code` is negative for a signal, None when nothing ever ran. False when the disk refuses, even
    with the room that was reserved.
    """
    return records.write_last(home, records.EXIT, {
        "code": code if code is None or code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "at": at or now(),
        "started_at": started_at,
        "last_lines": list(memory.lines),
        "first_error": memory.first_error,
        **extra,
    })  # fmt: skip


def now() -> float:
    return time.time()  # noqa: TID251 - a process of its own: there is no Clock port here


def _int(value: object) -> int:
    return int(str(value))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
