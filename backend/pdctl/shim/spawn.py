"""Start the leader: exact environment, own process group, killed by the kernel if the shim dies."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping, Sequence

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Orphans of the instance become our children, so that they can be found and reaped."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def start(argv: Sequence[str], env: Mapping[str, str], cwd: str, output: int) -> int:
    """Run `argv` with standard input empty and both outputs on `output`; its pid.

    Raises OSError when it cannot be executed. Must be called from the main thread: the kernel's
    death signal follows the thread that forked, not the process.
    """
    parent = os.getpid()
    failed_r, failed_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(argv, env, cwd, output, parent)
        except OSError as error:
            os.write(failed_w, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failed_w)
    with os.fdopen(failed_r, "rb") as pipe:
        code = pipe.read()
    if code:
        os.waitpid(pid, 0)
        number = int(code)
        raise OSError(number, os.strerror(number), argv[0])
    return pid


def _become(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, output: int, parent: int
) -> None:
    os.setpgid(0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the shim died before the line above took effect
        os._exit(127)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would keep that
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    empty = os.open("/dev/null", os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(cwd)
    os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - no shell is the point
