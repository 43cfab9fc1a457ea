"""Tables and boards for the routing tests."""

from __future__ import annotations

from functools import cache
from typing import Any

from pdctl import plugins
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec, SloSpec
from pdctl.routing.policy import Policy
from pdctl.routing.router import Board, board_of


def target(id_: str, *, accepts: bool = True, generation: int = 1, port: int = 1) -> Target:
    """The role is read from the name: p..., d... or b...."""
    role = {"p": Role.PREFILL, "d": Role.DECODE, "b": Role.BOTH}[id_[0]]
    return Target(InstanceId(id_), role.value, role, "127.0.0.1", port, generation, accepts)


def table(
    *ids: str,
    pairs: tuple[tuple[str, str], ...] | None = None,
    mode: Mode = Mode.PD,
    draining: tuple[str, ...] = (),
    slos: tuple[SloSpec, ...] = (),
    **limits: Any,
) -> RoutingTable:
    """By default every prefill is paired with every decode."""
    targets = tuple(target(one, accepts=one not in draining) for one in ids)
    if pairs is None:
        pairs = tuple((p, d) for p in ids for d in ids if p[0] == "p" and d[0] == "d")
    return RoutingTable(
        seq=1,
        mode=mode,
        served_name="tiny",
        connector="nixl",
        lease_s=10.0,
        limits=RouterSpec(**limits),
        targets=targets,
        slos=slos,
        pairs=tuple((InstanceId(p), InstanceId(d)) for p, d in pairs),
    )


def board(*ids: str, **more: Any) -> Board:
    built = table(*ids, **more)
    policies = _policy(built.limits.prefill_policy), _policy(built.limits.decode_policy)
    return board_of(built, *policies)


@cache
def _policy(name: str) -> Policy:
    policy: Policy = plugins.load(plugins.POLICIES, name)
    return policy
