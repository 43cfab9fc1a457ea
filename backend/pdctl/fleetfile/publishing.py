"""Which pools publish KV events: those whose instances the policy `kv_events` chooses.

`[pools.NAME] kv_events` says so by itself; what the file leaves out follows from the policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pdctl.domain.live import KV_EVENTS
from pdctl.domain.placement import side_channels
from pdctl.domain.topology import FleetSpec, PoolSpec, Role
from pdctl.fleetfile.mistakes import Key
from pdctl.fleetfile.reader import Findings

_ARGUMENT = "kv-events-config"


def resolved(fleet: FleetSpec, values: Mapping[str, Any]) -> FleetSpec:
    """The fleet, each of its pools publishing or not."""
    pools = []
    for pool in fleet.pools:
        said = _said(values, pool)
        wanted = _chosen(fleet, pool) and _ranks(fleet, pool) == 1 if said is None else said
        pools.append(replace(pool, kv_events=wanted))
    return replace(fleet, pools=tuple(pools))


def apply(fleet: FleetSpec, values: Mapping[str, Any], found: Findings) -> None:
    """Note what does not go together."""
    for pool in fleet.pools:
        key: Key = ("pools", pool.name, "kv_events")
        ranks, said = _ranks(fleet, pool), _said(values, pool)
        by_hand = _ARGUMENT in {**dict(fleet.engine.args), **dict(pool.args)}
        if pool.kv_events and ranks > 1:
            message = f"Instances of {pool.name} have {ranks} data-parallel ranks."
            hint = "Leave kv_events out: which rank computes a prompt is not known before."
            found.error(key, message, hint)
        elif _chosen(fleet, pool) and not pool.kv_events and not by_hand:
            where = key if said is False else ("pools", pool.name)
            message = f"{pool.name} publishes no KV events, and the policy kv_events chooses there."
            hint = "It goes by the router's own history then, as prefix_affinity does."
            found.warn(where, message, hint, named=said is not False)


def _chosen(fleet: FleetSpec, pool: PoolSpec) -> bool:
    """The policy for decode chooses for whole requests, too: those go to instances of any role."""
    if fleet.router.decode_policy == KV_EVENTS:
        return True
    return fleet.router.prefill_policy == KV_EVENTS and pool.role is not Role.DECODE


def _said(values: Mapping[str, Any], pool: PoolSpec) -> bool | None:
    pools = values.get("pools")
    table = pools.get(pool.name) if isinstance(pools, dict) else None
    said = table.get("kv_events") if isinstance(table, dict) else None
    return said if isinstance(said, bool) else None


def _ranks(fleet: FleetSpec, pool: PoolSpec) -> int:
    try:
        return side_channels(fleet, pool)
    except ValueError:  # not a number: said where the argument stands
        return 1
