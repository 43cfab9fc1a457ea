"""Many routers seen as one: their loads summed, limits divided, and who may be counted on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from pdctl.domain.handoff import Circuit, Load
from pdctl.domain.kv_events import KvFollowed, together
from pdctl.domain.table import RoutingTable


def merged(loads: Iterable[Load], *, latest_seq: int) -> Load:
    """One load. Its table is the oldest that any worker counts under: a drain waits for all.

    `latest_seq` holds when there is no worker: nobody can send work anywhere.
    """
    seqs: list[int] = []
    inflight: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    circuits: dict[str, list[Circuit]] = {}
    held: dict[str, tuple[int, float]] = {}
    followed: dict[str, list[KvFollowed]] = {}
    queued = 0
    for load in loads:
        seqs.append(load.table_seq)
        inflight.update(load.inflight)
        paths.update(load.paths)
        queued += load.queued
        for id_, circuit in load.circuits.items():
            circuits.setdefault(id_, []).append(circuit)
        for id_, (count, since) in load.held.items():
            before, oldest = held.get(id_, (0, since))
            held[id_] = (before + count, min(oldest, since))
        for id_, one in load.kv_events.items():
            followed.setdefault(id_, []).append(one)
    worst = {id_: _worst(found, len(seqs)) for id_, found in circuits.items()}
    kv_events = {id_: together(seen) for id_, seen in followed.items()}
    seq = min(seqs, default=latest_seq)
    return Load(seq, dict(inflight), queued, dict(paths), worst, held, kv_events)


def _worst(found: list[Circuit], workers: int) -> Circuit:
    """Each worker has seen failures of its own; how many of them is said."""
    one = next((one for one in found if one.state == "open"), found[0])
    if workers == 1:
        return one
    return replace(one, why=f"{one.why} (at {len(found)} of {workers} router workers)")


def share(table: RoutingTable, workers: int) -> RoutingTable:
    """The table for one of so many workers: what bounds the whole front door is divided."""
    limits = table.limits
    return replace(
        table,
        limits=replace(
            limits,
            max_inflight_per_instance=-(-limits.max_inflight_per_instance // workers),
            queue_limit=-(-limits.queue_limit // workers),
        ),
    )


def covers(new: RoutingTable, old: RoutingTable) -> bool:
    """Whether `new` knows every start and every pair that `old` sends work to."""
    known = {(one.id, one.generation) for one in new.targets}
    used = {(one.id, one.generation) for one in old.targets if one.accepts}
    resting = {one.id for one in new.targets if not one.accepts}
    lost = {pair for pair in set(old.pairs) - set(new.pairs) if not resting & set(pair)}
    return used <= known and not lost
