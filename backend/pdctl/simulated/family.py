"""The program's family, as vLLM's: an EngineCore and its Worker, which compute nothing.

Law: they fail as vLLM's do. A killed API server leaves both behind; a Worker ends with its
EngineCore, and an EngineCore with its Worker; all three map one segment of shared memory, which
only an orderly end removes. They are forks of the API server: a start costs a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import secrets
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_SHM = Path("/dev/shm")  # noqa: S108 - where multiprocessing's shared memory lies
_PR_SET_NAME = 15
_ARGUMENTS = slice(45, 47)
"""Where `arg_start` and `arg_end` are behind the name in proc_pid_stat(5)."""


@dataclass(slots=True)
class Family:
    """The processes below one API server, and what they share."""

    core: int
    worker: int
    segment: Path
    memory: mmap.mmap
    _reaped: bool = False

    def is_dead(self) -> bool:
        """Whether the EngineCore has ended."""
        if not self._reaped:
            self._reaped = os.waitpid(self.core, os.WNOHANG) != (0, 0)
        return self._reaped

    def close(self) -> None:
        """End it, and give the shared memory back."""
        if not self.is_dead():
            os.kill(self.core, signal.SIGKILL)
            os.waitpid(self.core, 0)
        self.memory.close()
        self.segment.unlink(missing_ok=True)


def start() -> Family:
    """Fork the family; call it before there are sockets, threads or an event loop to inherit."""
    prefix = os.environ.get("VLLM_PROCESS_NAME_PREFIX", "VLLM")
    segment = _SHM / f"psm_{prefix}_{secrets.token_hex(4)}"
    memory = _map(segment)
    ours, theirs = os.pipe()
    core = os.fork()
    if core == 0:
        _be_core(prefix, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        worker = int(pipe.read() or 0)
    return Family(core, worker, segment, memory)


def _map(segment: Path) -> mmap.mmap:
    fd = os.open(segment, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        return mmap.mmap(fd, mmap.PAGESIZE)
    finally:
        os.close(fd)


def _be_core(prefix: str, said: int) -> NoReturn:
    """Never notices the death of its parent; ends when its Worker does."""
    with contextlib.suppress(BaseException):
        alive, held = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.close(held)
            _be_worker(prefix, alive, said)
        os.close(alive)
        _entitle(f"{prefix}::EngineCore")
        os.write(said, str(worker).encode())
        os.close(said)
        os.waitpid(worker, 0)
    os._exit(1)


def _be_worker(prefix: str, alive: int, said: int) -> NoReturn:
    """Ends with its EngineCore, which holds the other end of the pipe `alive`."""
    with contextlib.suppress(BaseException):
        os.close(said)
        _entitle(f"{prefix}::Worker")
        os.read(alive, 1)
    os._exit(0)


def _entitle(title: str) -> None:
    """Put `title` where the command line was, as setproctitle does."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, title.encode()[:15])
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = (int(field) for field in fields[_ARGUMENTS])
    ctypes.memmove(start, title.encode()[: end - start - 1].ljust(end - start, b"\0"), end - start)
