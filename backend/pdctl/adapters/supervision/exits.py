"""Know at once when a process ends that is not our child (pidfd_open(2), readable at exit)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable

from pdctl.shim import procfs


class Watch:
    """One process, held by a file descriptor that can never mean another one."""

    def __init__(self, pid: int, fd: int, on_exit: Callable[[int | None], None]) -> None:
        self.pid, self._fd, self._on_exit = pid, fd, on_exit
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._ended)

    @classmethod
    def open(cls, pid: int, start: int, on_exit: Callable[[int | None], None]) -> Watch | None:
        """Watch the process with that pid and start time (ticks); None when it has ended.

        `on_exit` gets its wait status, or None when it is not our child.
        """
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return None
        if not procfs.alive(pid, start):  # looked at after the descriptor was taken: no race
            os.close(fd)
            _reap(pid)
            return None
        return cls(pid, fd, on_exit)

    def send(self, number: signal.Signals) -> None:
        """Signal exactly this process; nothing when it has ended."""
        if self._fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def close(self) -> None:
        """Look no more."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _ended(self) -> None:
        self.close()
        self._on_exit(_reap(self.pid))


class Announcer:
    """Tells every listener which start has ended."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[str]] = set()

    def tell(self, nonce: str) -> None:
        """The start of that nonce has ended."""
        for queue in self._listeners:
            queue.put_nowait(nonce)

    async def listen(self) -> AsyncIterator[str]:
        """Nonces as they are told, from now on."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.discard(queue)


def _reap(pid: int) -> int | None:
    with contextlib.suppress(ChildProcessError):
        reaped, status = os.waitpid(pid, os.WNOHANG)
        return status if reaped else None
    return None
