"""Engine processes of this machine, grouped into families and sorted by who answers for them: pure.

Law: a process is somebody's by the shim that watches it, by its nonce, or not at all; its looks
alone (a title, a command line) make it an engine, never ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

VARIABLES = (
    "PDCTL_NONCE", "VLLM_NIXL_SIDE_CHANNEL_PORT", "CUDA_VISIBLE_DEVICES",
    "VLLM_CPU_OMP_THREADS_BIND",
)  # fmt: skip
"""What is read of an engine's environment; everything else in it is nobody's business."""
SIMULATED = "pdctl.simulated"
_SERVERS = {"vllm.entrypoints.openai.api_server": "vLLM API server", SIMULATED: "simulated engine"}
_TITLE = re.compile(r"^(?P<prefix>[\w.-]+)::(?P<part>APIServer|EngineCore|Worker|DPCoordinator)")
_NONCE = re.compile(r"-([0-9a-f]{8})$")
_SHIM = "pdctl/shim/__main__.py"


class Kind(StrEnum):
    """Who answers for an engine."""

    ADOPTED = "adopted"
    """An instance of this fleet."""
    FOREIGN = "foreign"
    """Somebody else's: of another pdctl, or started by hand."""
    ORPHANED = "orphaned"
    """Nobody's: what it served or who watched it is gone."""
    GONE = "gone"
    """It has ended."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process as the machine shows it. Sizes are bytes; None is unknown, not zero."""

    pid: int
    start: int
    """Clock ticks after boot: with `pid` the identity for as long as the machine is up."""
    parent: int
    group: int
    words: tuple[str, ...]
    """The command line, or the title that it gave itself."""
    since: float = 0.0
    """Wall time, UTC seconds."""
    user: str = ""
    readable: bool = True
    """False: it belongs to another user, so only its command line is known."""
    env: tuple[tuple[str, str], ...] = ()
    """Those of `VARIABLES` that it was started with."""
    ports: tuple[int, ...] = ()
    """TCP ports on which it listens."""
    memory: int | None = None
    gpu_memory: int | None = None

    @property
    def part(self) -> str:
        """Which part of an engine it is; empty when it is none."""
        return part_of(self.words)

    @property
    def serves(self) -> bool:
        """Whether it is an API server: the leader of a whole engine."""
        return bool(self.part) and self.part in (*_SERVERS.values(), "APIServer")

    @property
    def nonce(self) -> str:
        """The nonce of the start that it belongs to, or its first eight digits; else empty."""
        if given := dict(self.env).get("PDCTL_NONCE", ""):
            return given
        title = _TITLE.match(self.words[0]) if self.words else None
        found = _NONCE.search(title["prefix"]) if title else None
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Shim:
    """A living shim: what it says in its command line, and whom it watches by its record."""

    pid: int
    folder: str
    """Of run-time records, of the pdctl that it belongs to."""
    nonce: str
    instance: str = ""
    leader: tuple[int, int] | None = None
    """(pid, start) of the process that it watches; None when its record cannot be read."""
    served: bool = False
    """Whether the pdctl of that folder runs now."""


@dataclass(frozen=True, slots=True)
class Family:
    """One engine: its leader and everything below it."""

    leader: Process
    members: tuple[Process, ...]
    """The leader is the first."""
    shim: Shim | None = None
    parent: str = ""
    """What its leader's parent is called."""

    @property
    def key(self) -> str:
        """Names exactly this engine: another process under the same pid has another key."""
        return f"{self.leader.pid}-{self.leader.start}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Every TCP port on which it listens."""
        return tuple(sorted({port for one in self.members for port in one.ports}))

    @property
    def memory(self) -> int | None:
        """Bytes resident in all its processes (shared pages count in each), None when unknown."""
        return _sum(one.memory for one in self.members)

    @property
    def gpu_memory(self) -> int | None:
        """Bytes that the GPU driver counts for its processes, None when it counts none."""
        return _sum(one.gpu_memory for one in self.members)

    def variable(self, name: str) -> str:
        """A variable of its environment; empty when it has none, or it cannot be read."""
        return next((dict(one.env)[name] for one in self.members if name in dict(one.env)), "")


@dataclass(frozen=True, slots=True)
class Found:
    """An engine and who answers for it."""

    family: Family
    kind: Kind
    why: str
    """A sentence: how we know, and what that means."""
    instance: str = ""
    folder: str = ""
    """Where the pdctl that supervises it keeps its run-time records."""

    @property
    def key(self) -> str:
        """That of the family."""
        return self.family.key

    @property
    def supervised(self) -> bool:
        """A living shim watches it: some pdctl answers for it."""
        return self.family.shim is not None


@dataclass(frozen=True, slots=True)
class Ours:
    """What this pdctl knows to be its own."""

    folder: str = ""
    """Of run-time records; empty when there is none."""
    instances: Mapping[str, str] = field(default_factory=dict)
    """Nonce -> instance id."""

    def instance(self, nonce: str) -> str:
        """The instance of that start; the nonce may be cut to its first eight digits."""
        short = len(nonce) == 8
        return next(
            (
                id_
                for known, id_ in self.instances.items()
                if known and (known == nonce or (short and known.startswith(nonce)))
            ),
            "",
        )


def part_of(words: Sequence[str]) -> str:
    """Which part of an engine runs that command line (or has that title); empty when none."""
    if not words:
        return ""
    if title := _TITLE.match(words[0]):
        return title["part"]
    name = words[0].rpartition("/")[2]
    if name.startswith("python"):
        for flag, module in pairwise(words):
            if flag == "-m" and module in _SERVERS:
                return _SERVERS[module]
    command = words[1:] if name.startswith("python") else words
    if len(command) > 1 and command[0].rpartition("/")[2] == "vllm" and command[1] == "serve":
        return "vLLM API server"
    return ""


def shim_home(words: Sequence[str]) -> str:
    """The folder of the start that a shim's command line names; empty when it is no shim's."""
    return words[4] if len(words) > 4 and words[3].endswith(_SHIM) else ""


def families(table: Mapping[int, Process], shims: Iterable[Shim] = ()) -> list[Family]:
    """Every engine in the process table, the oldest first.

    What has lost its leader is one family by its process group: the group outlives its leader.
    """
    watching = list(shims)
    roots: dict[object, list[Process]] = {}
    for pid in {_root(one, table) for one in table.values() if one.part}:
        root = table[pid]
        roots.setdefault(root.pid if root.serves else (root.group,), []).append(root)
    found = []
    for group in roots.values():
        group.sort(key=lambda one: (one.start, one.pid))
        members = {one.pid: one for root in group for one in (root, *_below(root, table))}
        leader, parent = group[0], table.get(group[0].parent)
        shim = next(
            (
                one
                for one in watching
                if one.pid == leader.parent or one.leader in {(x.pid, x.start) for x in group}
            ),
            None,
        )
        named = parent.words[0].rpartition("/")[2] if parent and parent.words else ""
        found.append(Family(leader, tuple(members.values()), shim, named))
    return sorted(found, key=lambda one: (one.leader.start, one.leader.pid))


def classify(family: Family, ours: Ours) -> Found:
    """Who answers for it."""
    if family.shim is not None:
        return _supervised(family, family.shim, ours)
    nonce = next((one.nonce for one in family.members if one.nonce), "")
    instance = ours.instance(nonce) if nonce else ""
    if nonce:
        whose = f"It was {instance}" if instance else f"A pdctl started it (start {nonce[:8]})"
        return Found(family, Kind.ORPHANED, f"{whose}; its supervisor is gone.", instance=instance)
    if not family.leader.serves:
        return Found(
            family, Kind.ORPHANED,
            "Its API server is gone: it serves nobody and still holds memory and devices.",
        )  # fmt: skip
    by = f"; its parent is {family.parent} (pid {family.leader.parent})" if family.parent else ""
    return Found(family, Kind.FOREIGN, f"Started without pdctl{by}.")


def _supervised(family: Family, shim: Shim, ours: Ours) -> Found:
    if not ours.folder or shim.folder != ours.folder:
        who = shim.instance or f"start {shim.nonce[:8]}"
        runs = "which runs now" if shim.served else "which does not run now"
        why = f"It is {who} of the pdctl that keeps its records in {shim.folder}, {runs}."
        return Found(family, Kind.FOREIGN, why, shim.instance, shim.folder)
    if instance := ours.instances.get(shim.nonce, ""):
        why = f"It is {instance} of this fleet."
        return Found(family, Kind.ADOPTED, why, instance, shim.folder)
    why = f"pdctl started it (start {shim.nonce[:8]}), but no instance answers for it."
    return Found(family, Kind.ORPHANED, why, shim.instance, shim.folder)


def owner_of(port: int, found: Iterable[Found]) -> Found | None:
    """The engine that listens on `port`, or None."""
    return next((one for one in found if port in one.family.ports), None)


def summary(found: Iterable[Found]) -> str:
    """One note on what orphaned engines hold here; empty when there are none."""
    orphans = [one for one in found if one.kind is Kind.ORPHANED]
    if not orphans:
        return ""
    held = []
    if memory := _sum(one.family.memory for one in orphans):
        held.append(f"{memory / 2**30:.1f} GiB of memory")
    if gpu := _sum(one.family.gpu_memory for one in orphans):
        held.append(f"{gpu / 2**30:.1f} GiB of GPU memory")
    if ports := sorted({port for one in orphans for port in one.family.ports}):
        held.append(f"port{'s' if len(ports) > 1 else ''} {', '.join(map(str, ports[:6]))}")
    count = len(orphans)
    what = "1 orphaned engine holds" if count == 1 else f"{count} orphaned engines hold"
    return f"{what} {', '.join(held) or 'processes'} on this machine; see: pdctl orphans"


def ended(found: Found, how: str) -> Found:
    """The same engine once it is no more."""
    return replace(found, kind=Kind.GONE, why=how)


def _root(one: Process, table: Mapping[int, Process]) -> int:
    """The topmost ancestor that is part of an engine, itself included."""
    root, seen, at = one.pid, {one.pid}, table.get(one.parent)
    while at is not None and at.pid not in seen and not shim_home(at.words):
        seen.add(at.pid)
        if at.part:
            root = at.pid
        at = table.get(at.parent)
    return root


def _below(root: Process, table: Mapping[int, Process]) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for one in table.values():
        children.setdefault(one.parent, []).append(one)
    found: list[Process] = []
    frontier = [root.pid]
    while frontier:
        for child in children.get(frontier.pop(), ()):
            if child.pid != root.pid and child not in found:
                found.append(child)
                frontier.append(child.pid)
    return found


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
