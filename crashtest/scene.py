"""Who runs for one fleet, told from the process table and the records of starts alone."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pdctl.shim import family, procfs, records

_SHIM = "pdctl/shim/__main__.py"
_ROUTER = "pdctl.router_worker"
_LISTENING = "0A"


class Kind(StrEnum):
    """What a process is, in the words of the summary."""

    CONTROL = "control plane"
    ROUTER = "router worker"
    SHIM = "shim"
    API = "API server"
    CORE = "EngineCore"
    WORKER = "Worker"
    OTHER = "other"
    """A helper of an engine: a resource tracker, a compiler."""


ENGINE = frozenset({Kind.API, Kind.CORE, Kind.WORKER, Kind.OTHER})


@dataclass(frozen=True, slots=True)
class Process:
    """One living process of the fleet."""

    pid: int
    start: int
    """Clock ticks after boot: with the pid it names this process and no other."""
    kind: Kind
    nonce: str = ""
    """The start that it belongs to; empty for those of no instance."""

    def alive(self) -> bool:
        """Whether it still runs."""
        return procfs.alive(self.pid, self.start)

    def send(self, number: signal.Signals) -> None:
        """Signal this process and no other."""
        proc = procfs.look(self.pid)
        if proc is not None and proc.start == self.start:
            family.send(proc, number)


@dataclass(frozen=True, slots=True)
class Start:
    """What one start was given alone, by its order on disk."""

    nonce: str
    instance: str
    ports: tuple[int, ...] = ()
    device: str = ""
    core: str = ""

    def owns(self) -> set[str]:
        """Everything that no other start may have while this one lives."""
        named = (("instance", self.instance), ("device", self.device), ("core", self.core))
        ports = {f"port {port}" for port in self.ports}
        return ports | {f"{what} {which}" for what, which in named if which}


@dataclass(frozen=True, slots=True)
class Scene:
    """Everybody at one moment."""

    processes: tuple[Process, ...] = ()
    starts: Mapping[str, Start] = field(default_factory=dict)
    """By nonce; every start whose processes were ever seen."""
    segments: frozenset[str] = frozenset()
    """Shared memory that living processes of the fleet map."""

    def of(self, *kinds: Kind) -> list[Process]:
        """Those of these kinds."""
        return [one for one in self.processes if one.kind in kinds]

    def instance(self, process: Process) -> str:
        """The id of the instance that it belongs to; empty when it belongs to none."""
        start = self.starts.get(process.nonce)
        return start.instance if start else ""


class Watcher:
    """Looks at the process table; remembers every start and every segment that it saw."""

    def __init__(self, state: Path) -> None:
        self._run = str((state / "run").resolve())
        self._state = str(state)
        self.starts: dict[str, Start] = {}
        self.segments: set[str] = set()
        """Names of shared memory that was ever mapped."""

    def look(self) -> Scene:
        """The scene now."""
        found = []
        for pid, proc in procfs.everyone().items():
            if not proc.dead and (one := self._recognise(pid, proc)) is not None:
                found.append(one)
        mapped = {name for one in found if one.nonce for name, _ in procfs.segments(one.pid)}
        self.segments |= mapped
        return Scene(tuple(found), dict(self.starts), frozenset(mapped))

    def leaked(self) -> set[str]:
        """Shared memory of starts that nobody of them maps any more, and that is still there."""
        marks = {f"-{nonce[:8]}_" for nonce in self.starts}
        there = {path.name for path in Path("/dev/shm").iterdir()}  # noqa: S108 - it is only read
        named = {name for name in there if any(mark in name for mark in marks)}
        return (named | (self.segments & there)) - set(self.look().segments)

    def _recognise(self, pid: int, proc: procfs.Proc) -> Process | None:
        words = procfs.arguments(pid)
        for at, word in enumerate(words[:-1]):
            if word.endswith(_SHIM) and (nonce := self._nonce(words[at + 1])):
                return Process(pid, proc.start, Kind.SHIM, self._known(nonce))
        if _ROUTER in words and any(word.startswith(self._run) for word in words):
            return Process(pid, proc.start, Kind.ROUTER)
        if "serve" in words and self._state in words:
            return Process(pid, proc.start, Kind.CONTROL)
        if nonce := self._nonce(_folder(pid)):
            return Process(pid, proc.start, _part(words, proc), self._known(nonce))
        return None

    def _nonce(self, path: str) -> str:
        """The start whose folder holds `path`; empty when that is none of ours."""
        inside = path.removeprefix(f"{self._run}/")
        nonce = inside.partition("/")[0]
        return nonce if inside != path and nonce != "router" else ""

    def _known(self, nonce: str) -> str:
        if nonce not in self.starts:
            data: dict[str, Any] = records.read(f"{self._run}/{nonce}", records.ORDER) or {}
            if (order := data.get("order")) is not None:
                slot = order["slot"]
                ports = (slot["http_port"], slot["side_channel_port"])
                self.starts[nonce] = Start(
                    nonce, order["instance_id"], ports, slot["device"], slot["core"]
                )
        return nonce


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - no file, a link of the kernel's
    except OSError:
        return ""


def _part(words: list[str], proc: procfs.Proc) -> Kind:
    title = words[0] if words else ""
    if title.endswith("::EngineCore"):
        return Kind.CORE
    if "::Worker" in title:
        return Kind.WORKER
    return Kind.API if proc.group == proc.pid else Kind.OTHER


def listening(first: int, last: int) -> dict[str, int]:
    """TCP ports from `first` to `last` on which somebody listens, by the inode of the socket."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    found = {}
    for fields in map(str.split, lines):
        port = int(fields[1].rpartition(":")[2], 16)
        if fields[3] == _LISTENING and first <= port <= last:
            found[fields[9]] = port
    return found


def sockets(pid: int) -> set[str]:
    """Inodes of the sockets that a process has open."""
    folder = f"/proc/{pid}/fd"
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - names are all that is needed
            with contextlib.suppress(OSError):
                kind, _, rest = os.readlink(f"{folder}/{name}").partition(":")  # noqa: PTH115
                if kind == "socket":
                    found.add(rest.strip("[]"))
    return found
