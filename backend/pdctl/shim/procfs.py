"""What Linux says about processes. Identity is (boot, pid, start time): a pid alone is reused."""

from __future__ import annotations

import os

DELETED = " (deleted)"
SHM = "/dev/shm/"  # noqa: S108 - it is read, not used as a scratch folder


class Proc:
    """One process as /proc/<pid>/stat shows it (proc_pid_stat(5))."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, text: str) -> None:
        fields = text[text.rindex(")") + 2 :].split()  # the name may hold spaces and brackets
        self.pid = pid
        self.state = fields[0]
        self.parent, self.group, self.session = (int(fields[n]) for n in (1, 2, 3))
        self.start = int(fields[19])
        """Clock ticks after boot (field 22)."""

    @property
    def identity(self) -> tuple[int, int]:
        """What names this process for as long as the machine is up."""
        return (self.pid, self.start)

    @property
    def dead(self) -> bool:
        """True for a zombie: it has ended and waits to be reaped."""
        return self.state in "ZX"


def boot_id() -> str:
    """Changes with every boot of the machine."""
    return _text("/proc/sys/kernel/random/boot_id").strip()


def look(pid: int) -> Proc | None:
    """The process `pid`, or None when there is none."""
    try:
        return Proc(pid, _text(f"/proc/{pid}/stat"))
    except (OSError, ValueError):
        return None


def alive(pid: int, start: int) -> bool:
    """True when that very process still runs."""
    found = look(pid)
    return found is not None and found.start == start and not found.dead


def everyone() -> dict[int, Proc]:
    """All processes that we may see."""
    found = (look(int(name)) for name in _pids())
    return {proc.pid: proc for proc in found if proc is not None}


def descendants(roots: set[int], table: dict[int, Proc]) -> set[int]:
    """Pids of all children, grandchildren... of `roots`, without the roots."""
    by_parent: dict[int, list[int]] = {}
    for proc in table.values():
        by_parent.setdefault(proc.parent, []).append(proc.pid)
    found: set[int] = set()
    frontier = list(roots)
    while frontier:
        for child in by_parent.get(frontier.pop(), ()):
            if child not in found and child not in roots:
                found.add(child)
                frontier.append(child)
    return found


def command(pid: int) -> str:
    """The command line, or the title that the process gave itself; empty when gone."""
    return _raw(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def arguments(pid: int) -> list[str]:
    """The command line, word by word; empty when gone."""
    return [word.decode(errors="replace") for word in _raw(f"/proc/{pid}/cmdline").split(b"\0")]


def variable(pid: int, name: str) -> str:
    """The value of that variable when it was started; empty when it had none, or is gone."""
    lead = f"{name}=".encode()
    found = (one for one in _raw(f"/proc/{pid}/environ").split(b"\0") if one.startswith(lead))
    return next(found, lead)[len(lead) :].decode(errors="replace")


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether it was started with that variable (a process that renames itself forgets)."""
    return f"{name}={value}".encode() in _raw(f"/proc/{pid}/environ").split(b"\0")


def segments(pid: int) -> set[tuple[str, int]]:
    """(name, inode) of the shared-memory files that `pid` has mapped and nobody has unlinked.

    A semaphore is mapped under a passing name and linked to its own (sem_open(3) in glibc), so what
    looks deleted may be there by another name.
    """
    found, passing = set(), set()
    for line in _raw(f"/proc/{pid}/maps").decode(errors="replace").splitlines():
        if (at := line.find(SHM)) < 0:
            continue
        inode = int(line.split(None, 5)[4])
        if line.endswith(DELETED):
            passing.add(inode)
        else:
            found.add((line[at + len(SHM) :], inode))
    if passing:
        with os.scandir(SHM) as entries:
            found |= {(one.name, one.inode()) for one in entries if one.inode() in passing}
    return found


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - as below


def _raw(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - no pathlib in the shim
            return file.read()
    except OSError:
        return b""


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
        return file.read()
