"""The routing table: all that the data plane knows of the fleet (the seam, inward).

The control plane pushes a whole new table on every change; the data plane keeps serving with the
last one. It is plain data so that it can cross a process border as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pdctl.domain.ids import InstanceId
from pdctl.domain.topology import Mode, Role, RouterSpec, SloSpec


@dataclass(frozen=True, slots=True)
class Target:
    """One instance as the router sees it."""

    id: InstanceId
    pool: str
    role: Role
    host: str
    port: int
    generation: int
    accepts: bool
    """False while draining: requests under way go on, new ones are not sent."""
    kv_full: bool = False
    """Its engine said that nearly all of its KV is in use: what comes now waits, or preempts."""
    ranks: int = 0
    """Data-parallel ranks behind its one port, as its engine told; 0 while it has not."""


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """Everything needed to route one request."""

    seq: int
    mode: Mode
    served_name: str
    connector: str
    lease_s: float
    limits: RouterSpec
    targets: tuple[Target, ...] = ()
    pairs: tuple[tuple[InstanceId, InstanceId], ...] = ()
    """(prefill, decode) pairs that have proved a handoff; others are not used for PD."""
    slos: tuple[SloSpec, ...] = ()
    traced: bool = False
    """Somebody collects our spans: those of the engines become their children."""

    def objective(self, named: str = "") -> SloSpec | None:
        """The one that a request names, else the router's; None where there is none."""
        name = named or self.limits.slo
        return next((one for one in self.slos if one.name == name), None) if name else None

    def target(self, id_: str) -> Target | None:
        """The target called `id_`, or None."""
        return next((one for one in self.targets if one.id == id_), None)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form; `from_json` gives the same table back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RoutingTable:
        """The table that `to_json` described."""
        return cls(
            seq=int(data["seq"]),
            mode=Mode(data["mode"]),
            served_name=data["served_name"],
            connector=data["connector"],
            lease_s=float(data["lease_s"]),
            limits=_limits(data["limits"]),
            targets=tuple(_target(one) for one in data["targets"]),
            traced=bool(data.get("traced")),
            pairs=tuple((InstanceId(p), InstanceId(d)) for p, d in data["pairs"]),
            slos=tuple(_slo(one) for one in data.get("slos", ())),
        )


def _target(data: Mapping[str, Any]) -> Target:
    known = {name: data[name] for name in Target.__dataclass_fields__ if name in data}
    return Target(**{**known, "role": Role(data["role"]), "id": InstanceId(data["id"])})


def _slo(data: Mapping[str, Any]) -> SloSpec:
    return SloSpec(**{name: data[name] for name in SloSpec.__dataclass_fields__ if name in data})


def _limits(data: Mapping[str, Any]) -> RouterSpec:
    """Unknown keys are ignored: a router may be older than the control plane that it serves."""
    known = RouterSpec.__dataclass_fields__
    return RouterSpec(**{name: value for name, value in data.items() if name in known})
