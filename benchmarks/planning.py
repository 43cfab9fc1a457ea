"""How long a plan of 200 instances takes: `python -m benchmarks.planning`.

The bar is a second; figures are seconds of one core, the best of five. "+ N" counts instances that
the rehearsal left out, because they go like those that it showed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from pdctl.domain import pairing
from pdctl.domain.change import Change, apply_to, parse
from pdctl.domain.compat import compat
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Endpoint, Instance, Pair, Slot
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.pace import Pace
from pdctl.domain.rehearsal import rehearse
from pdctl.domain.topology import (
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    Mode,
    PoolSpec,
    PortBand,
    Role,
    fingerprint,
)

PREFILL, DECODE = 80, 120
World = tuple[FleetSpec, tuple[list[Instance], list[Pair]]]
CHANGES: dict[str, Change] = {
    "mode=chunked": parse(["mode=chunked"]),
    "decode=121": parse(["decode=121"]),
    "decode=130": parse(["decode=130"]),
    "decode=100": parse(["decode=100"]),
    "prefill=81": parse(["prefill=81"]),
    "prefill=85 decode=115": parse(["prefill=85", "decode=115"]),
    "restart one": Change(restart=("decode-5",)),
    "restart all decodes": Change(restart=("decode",)),
    "prefill=160 decode=240": parse(["prefill=160", "decode=240"]),
    "drain one": Change(drain=("decode-5",)),
}


def fleet() -> FleetSpec:
    """80 prefill and 120 decode."""
    return FleetSpec(
        name="big", model="m", served_name="m", mode=Mode.PD, engine=EngineSpec("simulated"),
        connector=ConnectorSpec(),
        pools=(
            PoolSpec(PoolName("prefill"), Role.PREFILL, PREFILL),
            PoolSpec(PoolName("decode"), Role.DECODE, DECODE),
        ),
        http_ports=PortBand(18000, 18999), side_channel_ports=PortBand(19000, 19999),
    )  # fmt: skip


def ready(spec: FleetSpec) -> tuple[list[Instance], list[Pair]]:
    """Every instance ready, every pair proved."""
    found: list[Instance] = []
    for pool in spec.pools:
        for index in range(pool.size):
            http, side = 18000 + len(found), 19000 + len(found)
            found.append(
                Instance(
                    id=InstanceId(f"{pool.name}-{index}"), pool=pool.name, role=pool.role,
                    slot=Slot(index, http, side, pool.devices[index] if pool.devices else ""),
                    fingerprint=fingerprint(spec, pool),
                    phase=Phase.READY, reason=Reason.DESIRED, message="", since=0.0,
                    endpoint=Endpoint("127.0.0.1", http, side), compat=compat(spec, pool),
                    generation=1,
                )
            )  # fmt: skip
    return found, [replace(pair, state=pairing.OK) for pair in pairing.sync(found, [])]


def reflagged(spec: FleetSpec, **args: str | int) -> FleetSpec:
    """With other flags for every instance."""
    named = tuple((name.replace("_", "-"), value) for name, value in args.items())
    return replace(spec, engine=replace(spec.engine, args=named))


def packed(spec: FleetSpec, spare: int) -> FleetSpec:
    """A device for each instance, and some more in each pool."""
    pools, first = list[PoolSpec](), 0
    for pool in spec.pools:
        count = pool.size + spare
        devices = tuple(str(first + n) for n in range(count))
        pools.append(replace(pool, devices=devices))
        first += count
    return replace(spec, pools=tuple(pools))


def half_way(spec: FleetSpec, wanted: FleetSpec) -> World:
    """A change of every instance that was under way for some time."""
    begun = rehearse(wanted, *ready(spec), 1000.0, pace=Pace(), budget=400_000)
    pairs = [replace(pair, state=pairing.OK) for pair in pairing.sync(begun.instances, [])]
    return wanted, (list(begun.instances), pairs)


def rows() -> Iterator[tuple[str, FleetSpec, World]]:
    """(name, the fleet to come, the one that is desired and its world)."""
    spec = fleet()
    here: World = (spec, ready(spec))
    for name, change in CHANGES.items():
        yield name, apply_to(change, spec, here[1][0]).fleet, here
    flags = reflagged(spec, max_num_seqs=9)
    other = reflagged(spec, dtype="float32")
    yield "flags of all", flags, here
    yield "undo of it", spec, half_way(spec, flags)
    yield "flags, no old-new pair", other, here
    yield "undo of that", spec, half_way(spec, other)
    sized = apply_to(parse(["prefill=90", "decode=110"]), flags, here[1][0]).fleet
    yield "file: sizes and flags", sized, here
    for spare in (0, 2):
        tight = packed(spec, spare)
        name = f"flags, {spare} spare devices"
        yield name, reflagged(tight, max_num_seqs=9), (tight, ready(tight))


def main() -> None:
    """Print one line for each change."""
    for name, wanted, (_, (instances, pairs)) in rows():
        best = float("inf")
        for _ in range(5):
            began = time.process_time()
            ahead = rehearse(wanted, instances, pairs, 1000.0, pace=Pace())
            best = min(best, time.process_time() - began)
        more = f" + {sum(count for _, count in ahead.rest.left)}" if ahead.rest else ""
        took = f"{ahead.took_s / 3600:5.2f} h" if ahead.took_s else ""
        sys.stdout.write(f"{name:26} {best:6.3f} s  {len(ahead.steps):5} steps{more:6} {took}\n")


if __name__ == "__main__":
    main()
