"""Instances that change their pool without a new process: elastic ones. Pure.

Law: only what was launched with the very flags that its new pool wants is taken over; everything
else moves by relaunch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pdctl.domain.actions import Reassign
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import FleetSpec, PoolSpec, fingerprint

_ALIVE = frozenset(
    {Phase.STARTING, Phase.LOADING, Phase.WARMING, Phase.PROBING, Phase.READY, Phase.UNKNOWN,
     Phase.DRAINING}
)  # fmt: skip


def can_take_over(fleet: FleetSpec, one: Instance, pool: PoolSpec) -> bool:
    """True when the process of `one` is what `pool` would start."""
    alive = one.phase in _ALIVE
    return alive and pool.elastic and one.fingerprint == fingerprint(fleet, pool)


def take_over(
    fleet: FleetSpec, observed: Sequence[Instance]
) -> tuple[list[Reassign], Sequence[Instance]]:
    """What is to be reassigned, and the picture after that."""
    targets = {(id_, generation): pool for id_, generation, pool in fleet.orders.moved}
    if not targets:
        return [], observed
    actions: list[Reassign] = []
    after: list[Instance] = []
    for one in observed:
        pool = fleet.pool(targets.get((one.id, one.generation), one.pool))
        if pool is not None and pool.name != one.pool and can_take_over(fleet, one, pool):
            actions.append(Reassign(one.id, pool.name))
            one = reassigned(one, pool)  # noqa: PLW2901 - the same one, in its new pool
        after.append(one)
    return actions, after


def reassigned(one: Instance, pool: PoolSpec) -> Instance:
    """`one` as a member of `pool`."""
    message = f"{pool.role} from now on, with the same process"
    return replace(one, pool=pool.name, role=pool.role, message=message)
