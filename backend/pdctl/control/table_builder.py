"""From the observed fleet to the routing table: pure.

Law: READY instances take new work, and silent ones only while nobody answers;
DRAINING ones are listed, so that work under way is counted, but get none; only pairs that proved a
handoff between two READY ends are offered for PD.
"""

from __future__ import annotations

from dataclasses import replace

from pdctl.domain import pairing, silence
from pdctl.domain.fleet import Fleet
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.table import RoutingTable, Target

KV_FULL = 0.9
"""Share of KV in use from which on an engine counts as full: one bit, so that a table is not pushed
for every token."""


def build(fleet: Fleet, seq: int, *, traced: bool = False) -> RoutingTable:
    """The table that routes by `fleet` as it is now."""
    desired = fleet.desired
    ready = {one.id for one in fleet.instances if one.phase is Phase.READY}
    passed = {one.id for one in silence.passed_over(fleet.instances)}
    return RoutingTable(
        seq=seq,
        mode=desired.mode,
        served_name=desired.served_name,
        connector=desired.connector.name,
        lease_s=float(desired.connector.lease_s),
        limits=desired.router,
        traced=traced,
        slos=desired.slos,
        targets=tuple(
            _target(one, accepts=one.phase is Phase.READY and one.id not in passed)
            for one in fleet.instances
            if one.phase in (Phase.READY, Phase.DRAINING)
        ),
        pairs=tuple(
            (pair.prefill, pair.decode)
            for pair in fleet.pairs
            if pair.state == pairing.OK and pair.prefill in ready and pair.decode in ready
        ),
    )


def differs(new: RoutingTable, old: RoutingTable | None) -> bool:
    """True when `new` says anything that `old` does not, their numbers apart."""
    return old is None or replace(new, seq=old.seq) != old


def _target(one: Instance, *, accepts: bool) -> Target:
    return Target(
        id=one.id,
        pool=one.pool,
        role=one.role,
        host=one.endpoint.host,
        port=one.endpoint.http_port,
        generation=one.generation,
        accepts=accepts,
        kv_full=one.stats is not None and (one.stats.kv_usage or 0.0) >= KV_FULL,
        ranks=one.stats.ranks if one.stats is not None else 0,
    )
