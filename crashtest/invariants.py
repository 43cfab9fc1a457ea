"""What must hold, as pure functions: a world as it was seen in, complaints out.

Law: an empty list means that it holds, and every checker has a test in which it complains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from crashtest.scene import ENGINE, Kind, Process, Scene
from crashtest.traffic import HANG_S, Answer
from pdctl.contract.plans import OperationView
from pdctl.contract.resources import FleetView, RequestView
from pdctl.domain.lifecycle import Phase

HONEST = frozenset({429, 500, 502, 503, 504})
"""500 is what an API server says whose EngineCore has just died; it has to be excused, too."""
_ADDRESS = re.compile(r"127\.0\.0\.1|localhost|:\d{4,5}\b")
_OVER = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Kill:
    """One victim. Times are monotonic seconds."""

    at: float
    until: float
    """When SIGKILL was sent; it was frozen from `at` on."""
    kind: Kind
    pid: int
    instance: str = ""
    nonce: str = ""
    """The start that it was a part of; empty for those of no instance."""
    healed: float = math.inf
    """When the fleet was whole again."""

    def concerns(self, answer: Answer) -> bool:
        """Whether the request was open between the kill and the recovery from it."""
        return self.at <= answer.ended and answer.began <= self.healed


class Fate(StrEnum):
    """How a request ended."""

    WHOLE = "whole"
    REFUSED = "refused"
    """An honest status before the first byte."""
    ERROR_EVENT = "ended by an error event"
    CUT = "cut with its router"


@dataclass(frozen=True, slots=True)
class Hour:
    """What was done to the fleet while requests were open."""

    kills: Sequence[Kill]
    routers: int
    """Workers of the front door; 0: the control plane serves it."""

    def hurt(self, answer: Answer) -> set[str]:
        """Instances of which something was killed while the request was open."""
        return {one.instance for one in self.kills if one.instance and one.concerns(answer)}

    def door(self, answer: Answer) -> list[Kill]:
        """Kills of who serves the front door, likewise."""
        kind = Kind.ROUTER if self.routers else Kind.CONTROL
        return [one for one in self.kills if one.kind is kind and one.concerns(answer)]


def fate(answer: Answer) -> Fate:
    """How it ended, whether it may or not."""
    if answer.broken or answer.hung:
        return Fate.CUT
    if answer.whole:
        return Fate.WHOLE
    return Fate.REFUSED if answer.status != 200 else Fate.ERROR_EVENT


def truthful(answer: Answer, reference: str) -> list[str]:
    """A client is told the truth: the right text or its beginning, an end or an error."""
    said = []
    if answer.hung:
        said.append(f"had no end after {HANG_S:.0f} s")
    if not reference.startswith(answer.text):
        said.append(f"wrong text: {answer.text[:200]!r}, not {reference[:200]!r}")
    elif answer.whole and answer.text != reference:
        said.append(f"[DONE] after {len(answer.text)} of {len(reference)} characters")
    if answer.done and answer.error:
        said.append(f"[DONE] beside an error: {answer.error[:200]}")
    if answer.status == 200 and not (answer.done or answer.error or answer.broken or answer.hung):
        said.append("the stream ended without [DONE] and without an error")
    if answer.status not in (None, 200, *HONEST):
        said.append(f"status {answer.status}: {answer.error[:200]}")
    if _ADDRESS.search(answer.error):
        said.append(f"an address in an error: {answer.error[:200]}")
    return [f"{answer.id}: {one}" for one in said]


def excused(answer: Answer, record: RequestView | None, hour: Hour) -> list[str]:
    """Who is not served whole was hit: by the end of its own router, or of an engine it was on."""
    how = fate(answer)
    if how is Fate.WHOLE or answer.hung:
        return []
    if how is Fate.CUT:
        return _cut(answer, hour)
    hurt = hour.hurt(answer)
    if not hurt:
        return [f"{answer.id}: {how} though no engine was killed: {_said(answer)}"]
    legs = {leg.instance for leg in record.legs} if record else set()
    if legs and not legs & hurt:
        where = ", ".join(sorted(legs))
        return [f"{answer.id}: {how} on {where}, which nobody touched: {_said(answer)}"]
    return []


def _cut(answer: Answer, hour: Hour) -> list[str]:
    door = hour.door(answer)
    closed = len(door) >= max(1, hour.routers)
    if door and hour.routers:  # connections wait for a dead worker's successor in the control plane
        door += [one for one in hour.kills if one.kind is Kind.CONTROL and one.concerns(answer)]
    if closed or any(answer.began <= one.until for one in door):
        return []
    return [f"{answer.id}: cut though its router was not killed: {answer.broken}"]


def _said(answer: Answer) -> str:
    return f"{answer.status} {answer.error[:300]}"


def rivals(scene: Scene) -> list[tuple[str, Process, Process]]:
    """(what, one, other): living processes of two starts that have one thing that only one may."""
    members: dict[str, list[Process]] = {}
    for one in scene.processes:
        if one.kind in ENGINE and one.nonce in scene.starts:
            members.setdefault(one.nonce, []).append(one)
    owner: dict[str, str] = {}
    found = []
    for nonce, mine in members.items():
        for what in sorted(scene.starts[nonce].owns()):
            other = owner.setdefault(what, nonce)
            if other != nonce:
                found += [(what, a, b) for a in members[other] for b in mine]
    return found


def doubled(scene: Scene) -> list[str]:
    """Nobody has two: rivals that live at the same moment."""
    return sorted(
        {
            f"two starts have {what}: {scene.starts[a.nonce].instance} (pid {a.pid}) and "
            f"{scene.starts[b.nonce].instance} (pid {b.pid})"
            for what, a, b in rivals(scene)
            if a.alive() and b.alive()
        }
    )


def leftover(scene: Scene, fleet: FleetView, routers: int) -> list[str]:
    """Everybody who runs is part of the fleet as it is shown, and nobody of it is missing."""
    shown = {pid for one in fleet.instances for pid in (one.pid, one.shim_pid) if pid}
    ours = {one.nonce for one in scene.processes if one.pid in shown}
    said = [
        f"{one.kind} (pid {one.pid}) of {scene.instance(one) or one.nonce} belongs to no instance"
        for one in scene.processes
        if one.nonce and one.nonce not in ours
    ]
    running = {one.pid for one in scene.processes}
    said += [
        f"{one.id} is shown with process {pid}, which does not run"
        for one in fleet.instances
        for pid in (one.pid, one.shim_pid)
        if pid and pid not in running
    ]
    for nonce in ours:
        parts = {one.kind for one in scene.processes if one.nonce == nonce}
        missing = {Kind.SHIM, Kind.API, Kind.CORE, Kind.WORKER} - parts
        said += [f"{scene.starts[nonce].instance} has no {kind}" for kind in sorted(missing)]
    for kind, want in ((Kind.CONTROL, 1), (Kind.ROUTER, routers)):
        if (count := len(scene.of(kind))) != want:
            said.append(f"{count} of {want}: {kind}")
    return said


def strange_ports(fleet: FleetView, taken: Iterable[int]) -> list[str]:
    """Only instances of the fleet listen in the engines' bands."""
    known = {port for one in fleet.instances for port in (one.http_port, one.side_channel_port)}
    return [
        f"somebody listens on port {port}, which no instance has"
        for port in sorted(set(taken) - known)
    ]


def trespassing(scene: Scene, listeners: Mapping[Process, set[int]]) -> list[str]:
    """Who belongs to an instance listens on the ports of its start alone.

    A listening socket in the hands of one that never accepts is a grave for connections.
    """
    return [
        f"{one.kind} (pid {one.pid}) of {scene.instance(one)} holds port {port}, "
        "which is not its own"
        for one, ports in listeners.items()
        if one.nonce in scene.starts
        for port in sorted(ports - set(scene.starts[one.nonce].ports))
    ]


def unsettled(fleet: FleetView, routers: int) -> list[str]:
    """What keeps the fleet from being as desired; an instance that is held counts as settled."""
    held = {one.id for one in fleet.instances if one.phase is Phase.DRAINING}
    said = [
        f"{one.id} is {one.phase}: {one.message or one.reason}"
        for one in fleet.instances
        if one.phase is not Phase.READY and one.id not in held
    ]
    for pool in fleet.pools:
        away = len(held & set(pool.instances))
        if pool.ready + away != pool.desired:
            said.append(f"{pool.name} has {pool.ready} of {pool.desired} ready")
    said += [
        f"pair {one.prefill} > {one.decode} is {one.state}"
        for one in fleet.pairs
        if one.state != "ok" and not {one.prefill, one.decode} & held
    ]
    listening = [one for one in fleet.router.workers if one.state == "listening"]
    if len(listening) != routers or len(fleet.router.workers) != routers:
        states = ", ".join(one.state for one in fleet.router.workers) or "none"
        said.append(f"{len(listening)} of {routers} router workers listen ({states})")
    return said


def concluded(
    operation: OperationView | None, asked: str, shape: str, before: str, after: str
) -> list[str]:
    """The operation under way came to an end and says which, and the fleet is as it says.

    `asked` is its id; empty when the control plane died before it said one: then both shapes will
    do. Shapes are what is desired, sizes and mode.
    """
    if not asked:
        return [] if shape in (before, after) else [f"{shape} is neither {before} nor {after}"]
    if operation is None:
        return [f"{asked} is not known any more, and the fleet is {shape}"]
    if operation.state not in _OVER:
        return [f"{asked} is still {operation.state}: {operation.message}"]
    wanted = {"done": (after,), "cancelled": (before,)}.get(operation.state, (before, after))
    said = []
    if shape not in wanted:
        said.append(f"{asked} is {operation.state}, but the fleet is {shape}")
    if operation.state != "done" and not operation.message:
        said.append(f"{asked} is {operation.state} and does not say why")
    return said


def unnoticed(kills: Iterable[Kill], scene: Scene, fleet: FleetView) -> list[str]:
    """What was killed and is taken for alive: the rest of its start runs, or it is shown.

    An API server learns of its EngineCore's death seconds later, and looks well until then.
    """
    running = {one.nonce for one in scene.processes if one.nonce}
    shown = {pid for one in fleet.instances for pid in (one.pid, one.shim_pid)}
    shown |= {one.pid for one in fleet.router.workers}
    dead = shown - {one.pid for one in scene.processes}
    return [
        f"nobody has noticed yet that {one.instance or 'the front door'} lost its {one.kind} "
        f"(pid {one.pid})"
        for one in kills
        if one.nonce in running or one.pid in dead
    ]


def shape_of(fleet: FleetView) -> str:
    """What is desired, in a word."""
    sizes: Mapping[str, int] = {pool.name: pool.desired for pool in fleet.pools}
    return " ".join([*(f"{name}={size}" for name, size in sorted(sizes.items())), fleet.mode])
