"""`python -S -E .../pdctl/shim/__main__.py HOME [READY_FD]`: the shim of the start in folder HOME.

Executed by path, without site-packages: it is up in some 30 ms and imports nothing of others.
"""

from __future__ import annotations

import os
import sys


def main(home: str, ready: int) -> int:
    """Be the shim; 0: the leader's end is recorded, 5: it could not be. A word goes to `ready`."""
    import fcntl

    from pdctl.shim import attach, records, supervise

    if os.getsid(0) != os.getpid():
        os.setsid()
    if ready >= 0:
        os.set_inheritable(ready, False)  # it came through an exec, the engine must not get it
    _close_all_but(ready)
    lock = os.open(f"{home}/{records.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _say(ready, "another shim holds this start", 3)
    order = records.read(home, records.ORDER)
    if order is None:
        return _say(ready, f"{home}/{records.ORDER} cannot be read", 2)
    try:
        shim = attach.shim_of(home, order)
    except (OSError, KeyError, ValueError) as error:
        return _say(ready, f"{home}: {error}", 2)
    try:
        shim.start()
        _say(ready, "", 0)
        recorded = shim.run()
    except OSError as error:
        shim.abandon()
        why = f"cannot start {error.filename or 'the engine'}: {error.strerror}"
        shim.memory.first_error = shim.memory.first_error or why
        _say(ready, why, 4)
        supervise.record_exit(
            home, shim.memory, code=None, started_at=shim.started_at, extra={"asked": shim.asked}
        )
        return 4
    except BaseException:
        shim.abandon()
        raise
    return 0 if recorded else 5


def _close_all_but(ready: int) -> None:
    """What the control plane had open and meant for nobody must not live as long as an engine."""
    first = 3
    if ready >= first:
        os.closerange(first, ready)
        first = ready + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _say(ready: int, sentence: str, code: int) -> int:
    if ready >= 0:
        try:
            os.write(ready, sentence.encode() or b"ok")
            os.close(ready)
        except OSError:
            pass  # said already, or the launcher is gone: the records tell it as well
    return code


if __name__ == "__main__":
    # Our folder must not shadow the standard library, nor may what else is installed beside us.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - no pathlib here
    sys.path[:] = [path for path in sys.path if path not in ("", here)]
    sys.path.append(os.path.dirname(os.path.dirname(here)))  # noqa: PTH120 - as above
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1))
