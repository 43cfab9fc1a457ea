"""Which ports and which device or core set a new instance gets: pure, and never twice the same.

Law: a slot overlaps no other owner's slot in any device, core or port. No room is a value that
says who holds what is wanted, so that an operator can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pdctl.domain.instance import Refused, Slot
from pdctl.domain.topology import FleetSpec, PoolSpec, PortBand


@dataclass(frozen=True, slots=True)
class Holding:
    """A slot and who has it."""

    owner: str
    pool: str
    slot: Slot
    side_channels: int = 1
    """How many consecutive side-channel ports it occupies (one per data-parallel rank)."""


def place(
    fleet: FleetSpec, pool: PoolSpec, held: Sequence[Holding], *, avoid: Slot | None = None
) -> Slot | Refused:
    """The lowest free slot of `pool`; with `avoid`, its device again, but ports past its own."""
    seat = _seat(pool, held, avoid)
    if isinstance(seat, Refused):
        return seat
    index, device, core = seat
    taken = frozenset(port for one in held for port in ports(one))
    http = _free(fleet.http_ports, 1, taken, avoid.http_port if avoid else None)
    if http is None:
        return Refused(pool.name, f"every port of http_ports {fleet.http_ports} is taken")
    width = side_channels(fleet, pool)
    after = avoid.side_channel_port if avoid else None
    side = _free(fleet.side_channel_ports, width, taken | {http}, after)
    if side is None:
        band = fleet.side_channel_ports
        return Refused(pool.name, f"side_channel_ports {band} has no {width} free in a row")
    return Slot(index, http, side, device, core)


def side_channels(fleet: FleetSpec, pool: PoolSpec | None) -> int:
    """Side-channel ports of one instance: vLLM listens on base + data-parallel rank (envs.py)."""
    spelt = ("data-parallel-size", "data_parallel_size", "dp", "-dp")
    for args in ((pool.args if pool else ()), fleet.engine.args):
        for name, value in args:
            if name.lstrip("-") in spelt:
                return max(1, int(value))
    return 1


def ports(holding: Holding) -> Iterator[int]:
    """Every TCP port that `holding` occupies."""
    yield holding.slot.http_port
    first = holding.slot.side_channel_port
    yield from range(first, first + holding.side_channels)


@lru_cache(maxsize=4096)
def atoms(text: str) -> frozenset[str]:
    """The single devices or cores that "0,1", "0-3" or "0-3|8" name; an unknown form is itself."""
    return frozenset(atom for part in text.replace("|", ",").split(",") for atom in _expand(part))


def overlap(one: Slot, other: Slot) -> bool:
    """True when two slots cannot be held at the same time by different owners (ports apart)."""
    return bool(atoms(one.device) & atoms(other.device) or atoms(one.core) & atoms(other.core))


def _wants(device: str, core: str) -> Iterator[tuple[str, str]]:
    """What nobody else may have."""
    yield from (("device", each) for each in sorted(atoms(device)))
    yield from (("core", each) for each in sorted(atoms(core)))


def _expand(part: str) -> Iterable[str]:
    part = part.strip()
    first, dash, last = part.partition("-")
    if dash and first.isdecimal() and last.isdecimal():
        return map(str, range(int(first), int(last) + 1))
    return (part,) if part else ()


def _seat(
    pool: PoolSpec, held: Sequence[Holding], prefer: Slot | None
) -> tuple[int, str, str] | Refused:
    """Index, device and core: from the pool's lists, or the lowest free number when it has none."""
    limits = [len(entries) for entries in (pool.devices, pool.cores) if entries]
    if not limits:
        mine = {one.slot.index for one in held if one.pool == pool.name}
        return next(n for n in range(len(mine) + 1) if n not in mine), "", ""
    seats = list(range(min(limits)))
    if prefer is not None and prefer.index in seats:
        seats.insert(0, prefer.index)
    taken: dict[tuple[str, str], list[str]] = {}
    for one in held:
        for each in _wants(one.slot.device, one.slot.core):
            taken.setdefault(each, []).append(one.owner)
    blockers: dict[str, str] = {}
    for index in seats:
        device = pool.devices[index] if pool.devices else ""
        core = pool.cores[index] if pool.cores else ""
        holders = dict.fromkeys(x for each in _wants(device, core) for x in taken.get(each, ()))
        if not holders:
            return index, device, core
        blockers[device or core] = ", ".join(holders)
    kind = "devices" if pool.devices else "cores"
    details = tuple(f"{what}: {who}" for what, who in blockers.items())
    return Refused(pool.name, f"none of its {min(limits)} {kind} is free", details)


def _free(band: PortBand, width: int, taken: frozenset[int], after: int | None) -> int | None:
    """The first of `width` free ports in a row, looking past `after` first."""
    starts = list(range(band.first, band.last - width + 2))
    if after is not None:
        starts.sort(key=lambda port: port <= after)
    return next((p for p in starts if taken.isdisjoint(range(p, p + width))), None)
