"""Start a shim: detached, with a clean environment, and wait for its word that the engine runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from pdctl import shim
from pdctl.domain.errors import EngineError

PROGRAM = Path(shim.__file__).with_name("__main__.py")
DEADLINE_S = 60.0
"""A shim is up in some 50 ms; a machine that loads weights into fifty engines takes longer."""
LAST_WORDS_S = 10.0
"""How long a shim that said why it failed may take to write that down and end."""
HOPELESS_S = 5.0
"""How long after SIGKILL its end is waited for."""
_BASE = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_READY = 3
"""File descriptor number in the shim."""


def base_env(argv0: str, ours: Mapping[str, str]) -> dict[str, str]:
    """What an engine inherits from us: no more than it takes to find its home and its tools.

    Our virtual environment stays out of its PATH, its own interpreter's folder comes first (ninja
    and other build tools of an engine environment live there).
    """
    env = {name: ours[name] for name in _BASE if name in ours}
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else ""
    path = [part for part in ours.get("PATH", _DEFAULT_PATH).split(os.pathsep) if part != own]
    if os.path.isabs(argv0):  # noqa: PTH117 - a string, not a file of ours
        path.insert(0, str(Path(argv0).parent))
    return {**env, "PATH": os.pathsep.join(path)}


async def spawn(home: Path) -> int:
    """Start the shim of `home`; its pid once the engine's process runs. EngineError otherwise."""
    ours, theirs = os.pipe()
    try:
        pid = _start(home, theirs)
    except OSError as error:
        os.close(ours)
        raise EngineError(
            "shim_failed", f"The supervisor of a new instance did not start: {error}."
        ) from error
    finally:
        os.close(theirs)
    word = ""
    try:
        word = await _listen(ours)
    finally:
        if word != "ok":
            await bury(pid, patience_s=LAST_WORDS_S if word else 0.0)
    if word == "ok":
        return pid
    raise EngineError("start_failed", _sentence(word, home), f"See {home}.")


async def bury(pid: int, *, patience_s: float) -> None:
    """Reap a shim that brought nothing up, so that it cannot start the engine after all."""
    loop = asyncio.get_running_loop()
    kill_at = loop.time() + patience_s
    while _runs(pid) and loop.time() < kill_at + HOPELESS_S:
        if loop.time() >= kill_at:
            os.kill(pid, signal.SIGKILL)  # not reaped yet: the pid is surely it
        await asyncio.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def _start(home: Path, ready: int) -> int:
    log = (str(home / "shim.err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-S", "-E", str(PROGRAM), str(home), str(_READY)],
        {"PATH": _DEFAULT_PATH},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, *log),
            (os.POSIX_SPAWN_OPEN, 2, *log),
            (os.POSIX_SPAWN_DUP2, ready, _READY),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1),
    )


async def _listen(fd: int) -> str:
    """All that is said on the pipe before it closes; "" when nothing came in time."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    os.set_blocking(fd, False)
    loop.add_reader(fd, _settle, readable)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await readable
        return os.read(fd, 4096).decode(errors="replace")
    except TimeoutError:
        return ""
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _sentence(word: str, home: Path) -> str:
    if word:
        return f"The engine was not started: {word}."
    try:
        said = (home / "shim.err").read_text(errors="replace").strip().splitlines()
    except OSError:
        said = []
    last = f" Its last words: {said[-1]}" if said else ""
    return f"The supervisor of a new instance ended before it started the engine.{last}"
