"""What the fleet shows now, as one number for each rule and each one it concerns: pure.

Law: what is old or was never seen is no number. A rule that has enough to go by and sees nothing
reads zero, so what is well again can be told from what is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pdctl.domain.fleet import Fleet
from pdctl.domain.handoff import Load
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.lifecycle import Phase
from pdctl.domain.pairing import FAILING, PROBING, QUARANTINED, UNTRIED
from pdctl.domain.signals.book import Reading
from pdctl.domain.truth import Kv

ROUTER, MACHINE, PDCTL = "router", "machine", "pdctl"
"""Subjects that are no part of the fleet."""
ENOUGH = 10
"""Fewer requests than this say nothing of a share of them."""
BUSY = 8
"""With fewer open requests nobody is called overloaded."""
HANDED_OVER = 5
"""Fewer judged handoffs than this say nothing of how many failed in silence."""
LISTED_PAIRS = 10
"""More failing pairs of one prefill instance are one signal, about the instance."""
PAIRS, RECOMPUTE = "pair_failing", "silent_recompute"
_SERVES = frozenset({Phase.READY, Phase.DRAINING})


@dataclass(frozen=True, slots=True)
class Growth:
    """What an engine's counters grew by lately, within one start; None: it does not tell."""

    expired: float | None = None
    failed: float | None = None
    preempted: float | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What requests came to lately."""

    requests: int = 0
    failed: int = 0
    """For no fault of their client."""
    kv: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By pair: what became of KV that was handed over (domain.truth), in requests."""
    burns: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    """By objective: how many times too fast its budget is used up, over the short and the long
    window; None with too few requests to tell."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What pdctl knows of the ground that it stands on."""

    disk_used: float | None = None
    orphans: str = ""
    """What orphaned engines hold, in words; empty when there are none."""
    webhook_failures: int | None = None
    """Attempts in a row that failed; None where there is no webhook."""
    webhook_error: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that readings are made of."""

    fleet: Fleet
    load: Load
    now: float
    """Wall time, UTC seconds."""
    monotonic: float
    stale_s: float
    """Metrics that are older say nothing."""
    growth: Mapping[str, Growth] = field(default_factory=dict)
    """By instance; who is missing has not been seen for long enough."""
    traffic: Traffic = Traffic()
    machine: Machine = Machine()
    open_pairs: frozenset[str] = frozenset()
    """Pairs that a signal is about: there are thousands of pairs, and of most nothing is said."""


def read(facts: Facts) -> Iterator[Reading]:
    """Every reading."""
    for one in facts.fleet.instances:
        yield from _process(one, facts)
        if one.phase in _SERVES:
            yield from _engine(one, facts)
    yield from _pools(facts)
    yield from _pairs(facts.fleet.pairs, facts.open_pairs)
    yield from _requests(facts)
    yield from _machine(facts.machine)


def _process(one: Instance, facts: Facts) -> Iterator[Reading]:
    why = one.first_failure.first_error if one.first_failure else ""
    yield Reading("crash_loop", one.id, one.failures, why or one.message)
    failed = one.phase is Phase.FAILED
    yield Reading("given_up", one.id, float(failed), one.message if failed else "")
    yield _silence(one, facts.monotonic)
    circuit = facts.load.circuits.get(one.id)
    yield Reading(
        "circuit_open", one.id, float(circuit is not None), circuit.why if circuit else ""
    )


def _silence(one: Instance, now: float) -> Reading:
    """Of one that was adopted and has not been heard yet, nothing is known."""
    if one.phase is Phase.UNKNOWN:
        return Reading("not_answering", one.id, None)
    since = one.vitals.silent_since
    silent = 0.0 if since is None else now - since
    return Reading("not_answering", one.id, silent, one.message if silent else "")


def _engine(one: Instance, facts: Facts) -> Iterator[Reading]:
    stats, silent = one.stats, one.vitals.silent_since is not None
    age = None if stats is None else max(0.0, facts.now - stats.at)
    yield Reading("stale_metrics", one.id, None if silent else age, "" if silent else _old(age))
    fresh = age is not None and age <= facts.stale_s and not silent
    stalled = one.vitals.stalled_since
    still = 0.0 if stalled is None else facts.monotonic - stalled
    running = f"{stats.running:.0f} requests are running" if stats and stalled is not None else ""
    yield Reading("stall", one.id, still if fresh else None, running)
    usage = stats.kv_usage if stats is not None and fresh else None
    yield Reading("kv_nearly_full", one.id, usage, _waiting(one))
    grown = facts.growth.get(one.id) if fresh else None
    counts = grown or Growth()
    yield Reading("lease_expired", one.id, counts.expired)
    yield Reading("transfer_failed", one.id, counts.failed)
    yield Reading("preemptions", one.id, counts.preempted)


def _old(age: float | None) -> str:
    return "" if age is None else f"its metrics are {age:.0f} s old"


def _waiting(one: Instance) -> str:
    return f"{one.stats.waiting:.0f} requests wait in the engine" if one.stats else ""


def _recomputed(pair: str, kv: Mapping[str, float]) -> Reading:
    again = kv.get(Kv.RECOMPUTED, 0)
    judged = again + kv.get(Kv.MOVED, 0) + kv.get(Kv.CACHED, 0)
    if judged < HANDED_OVER:
        share = 0.0 if not judged and not kv.get(Kv.UNKNOWN) else None
        return Reading(RECOMPUTE, pair, share)
    said = f"{again:.0f} of {judged:.0f} handed-over requests were computed again"
    return Reading(RECOMPUTE, pair, again / judged, said)


def _pools(facts: Facts) -> Iterator[Reading]:
    members: dict[str, list[Instance]] = {}
    for one in facts.fleet.instances:
        if one.phase is Phase.READY:
            members.setdefault(one.pool, []).append(one)
    for pool in facts.fleet.desired.pools:
        ready = members.get(pool.name, [])
        said = f"{len(ready)} of {pool.size} are ready"
        yield Reading("pool_short", pool.name, max(0, pool.size - len(ready)), said)
        total = sum(one.inflight for one in ready)
        for one in ready if len(ready) > 1 else ():
            others = (total - one.inflight) / (len(ready) - 1)
            times = one.inflight / max(1.0, others) if one.inflight >= BUSY else 0.0
            said = f"{one.inflight} open; the others of {pool.name} have {others:.1f} on average"
            yield Reading("imbalance", one.id, times, said)


def _pairs(pairs: Sequence[Pair], open_: frozenset[str]) -> Iterator[Reading]:
    bad = (FAILING, QUARANTINED)
    failing = Counter(pair.prefill for pair in pairs if pair.state in bad)
    many = {end for end, count in failing.items() if count > LISTED_PAIRS}
    for end in sorted(many):
        said = f"{failing[end]} of its pairs cannot hand over"
        yield Reading(PAIRS, end, failing[end], said)
    for pair in pairs if failing or open_ else ():
        subject, wrong = f"{pair.prefill}>{pair.decode}", pair.state in bad
        if pair.prefill not in many and (wrong or subject in open_):
            tried = wrong or pair.state not in (UNTRIED, PROBING)
            value = float(wrong) if tried else None
            yield Reading(PAIRS, subject, value, pair.message if wrong else "")


def _requests(facts: Facts) -> Iterator[Reading]:
    queued, limit = facts.load.queued, facts.fleet.desired.router.queue_limit
    yield Reading("queue_backing_up", ROUTER, queued, f"{queued} wait; {limit} may")
    traffic = facts.traffic
    yield from (_recomputed(pair, kv) for pair, kv in traffic.kv.items())
    share = 0.0 if not traffic.requests else None
    if traffic.requests >= ENOUGH:
        share = traffic.failed / traffic.requests
    said = f"{traffic.failed} of {traffic.requests} requests failed"
    yield Reading("failing_requests", ROUTER, share, said)
    for name, burn in traffic.burns.items():
        said = "" if burn is None else f"{burn[0]:.1f}x over 5 minutes, {burn[1]:.1f}x over an hour"
        yield Reading("slo_burn", name, None if burn is None else min(burn), said)


def _machine(machine: Machine) -> Iterator[Reading]:
    yield Reading("disk_nearly_full", MACHINE, machine.disk_used)
    yield Reading("orphans", MACHINE, float(bool(machine.orphans)), machine.orphans)
    if (failures := machine.webhook_failures) is not None:
        yield Reading("webhook_failing", PDCTL, failures, machine.webhook_error)
