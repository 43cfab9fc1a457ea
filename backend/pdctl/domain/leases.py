"""What instances hold of a machine, value by value, so that a store can promise it to one: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.placement import Holding, atoms, ports, side_channels
from pdctl.domain.topology import FleetSpec


@dataclass(frozen=True, slots=True)
class Lease:
    """One port, device or core, and the start that holds it."""

    kind: str
    """port | device | core"""
    value: str
    instance: InstanceId
    generation: int

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


def leases(fleet: FleetSpec, instances: Iterable[Instance]) -> tuple[Lease, ...]:
    """Everything that is held; an instance holds its slot until it has stopped."""
    return tuple(
        Lease(kind, value, one.id, one.generation)
        for one in instances
        if one.phase is not Phase.STOPPED
        for kind, value in _values(fleet, one)
    )


def holder(held: Sequence[Lease], id_: InstanceId) -> Lease | None:
    """Another's lease of something that `id_` holds too; None when all of its own is its own."""
    mine = {(one.kind, one.value) for one in held if one.instance == id_}
    return next(
        (one for one in held if one.instance != id_ and (one.kind, one.value) in mine), None
    )


def unique(held: Sequence[Lease]) -> tuple[Lease, ...]:
    """Each thing once, with its first holder: what runs side by side already cannot be undone."""
    first: dict[tuple[str, str], Lease] = {}
    for one in held:
        first.setdefault((one.kind, one.value), one)
    return tuple(first.values())


def _values(fleet: FleetSpec, one: Instance) -> Iterator[tuple[str, str]]:
    width = side_channels(fleet, fleet.pool(one.pool))
    for port in ports(Holding(one.id, one.pool, one.slot, width)):
        yield "port", str(port)
    for kind, text in (("device", one.slot.device), ("core", one.slot.core)):
        for atom in sorted(atoms(text)):
            yield kind, atom
