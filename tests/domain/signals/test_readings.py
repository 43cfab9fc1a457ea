"""What a fleet shows becomes one number for each rule; what is old or unseen is no number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pdctl.domain.fleet import Fleet
from pdctl.domain.handoff import Circuit, Load
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Endpoint, EngineStats, Instance, Pair, Slot, Vitals
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.signals.book import Reading
from pdctl.domain.signals.readings import Facts, Growth, Machine, Traffic, read
from pdctl.domain.signals.rules import RULES
from pdctl.domain.topology import Role
from tests.fakes.fleets import fleet

NOW, MONOTONIC = 5000.0, 100.0
STATS = EngineStats(at=NOW - 1, running=2, waiting=3, kv_usage=0.5)


def instance(id_: str = "decode-0", phase: Phase = Phase.READY, **fields: Any) -> Instance:
    """One that is as it should be, but for `fields`."""
    pool = id_.rpartition("-")[0]
    one = Instance(
        id=InstanceId(id_), pool=PoolName(pool), role=Role(pool), slot=Slot(0, 18000, 18100),
        fingerprint="f", phase=phase, reason=Reason.DESIRED, message="", since=0.0,
        endpoint=Endpoint("127.0.0.1", 18000, 18100), stats=STATS, nonce="n",
    )  # fmt: skip
    return replace(one, **fields)


def facts(*instances: Instance, pairs: tuple[Pair, ...] = (), **fields: Any) -> Facts:
    """The facts of a fleet of them."""
    known = Fleet(fleet(1, 1), instances, pairs)
    return replace(Facts(known, Load(0), NOW, MONOTONIC, stale_s=6.0), **fields)


def readings(given: Facts) -> dict[tuple[str, str], Reading]:
    """By rule and subject; each is there once, and each rule is one that there is."""
    found = list(read(given))
    by = {(one.rule, one.subject): one for one in found}
    assert len(by) == len(found)
    assert {one.rule for one in found} <= RULES.keys()
    return by


def value(given: Facts, rule: str, subject: str = "decode-0") -> float | None:
    """What one rule reads of one subject."""
    return readings(given)[rule, subject].value


def test_a_healthy_fleet_is_below_every_threshold() -> None:
    pair = Pair(InstanceId("prefill-0"), InstanceId("decode-0"), "ok")
    still = Growth(0, 0, 0)
    given = facts(
        instance("prefill-0"), instance(), pairs=(pair,), machine=Machine(0.4, "", 0, ""),
        growth={"decode-0": still, "prefill-0": still},
        traffic=Traffic(20, 0, burns={"chat": (0.0, 0.0)}),
    )  # fmt: skip
    found = readings(given)
    for one in found.values():
        assert one.value is not None
        assert one.value < RULES[one.rule].threshold
    # Imbalance takes two of a pool; of good pairs nothing is said.
    absent = {"imbalance", "pair_failing", "silent_recompute"}
    assert {rule for rule, _ in found} == RULES.keys() - absent


def test_old_metrics_are_no_metrics() -> None:
    given = facts(instance(stats=replace(STATS, at=NOW - 40)))
    assert value(given, "stale_metrics") == 40
    for rule in ("kv_nearly_full", "stall", "preemptions", "lease_expired"):
        assert value(given, rule) is None
    given = facts(instance(stats=None))
    assert value(given, "stale_metrics") is None
    assert value(given, "kv_nearly_full") is None


def test_an_instance_that_is_silent_is_told_once() -> None:
    silent = instance(vitals=Vitals(silent_since=MONOTONIC - 12), message="does not answer")
    given = facts(silent)
    assert value(given, "not_answering") == 12
    assert readings(given)["not_answering", "decode-0"].detail == "does not answer"
    assert value(given, "stale_metrics") is None


def test_of_an_adopted_one_that_was_not_heard_nothing_is_known() -> None:
    assert value(facts(instance(phase=Phase.UNKNOWN)), "not_answering") is None


def test_a_stall_is_as_long_as_it_lasts() -> None:
    given = facts(instance(vitals=Vitals(stalled_since=MONOTONIC - 20)))
    assert value(given, "stall") == 20


def test_failures_and_a_given_up_instance() -> None:
    given = facts(instance(phase=Phase.FAILED, failures=3, message="bad flag"))
    assert value(given, "crash_loop") == 3
    assert value(given, "given_up") == 1
    assert value(given, "pool_short", "decode") == 1
    assert ("kv_nearly_full", "decode-0") not in readings(given)


def test_imbalance_names_the_instance_and_needs_some_load() -> None:
    given = facts(instance("decode-0", inflight=24), instance("decode-1", inflight=4))
    found = readings(given)["imbalance", "decode-0"]
    assert found.value == 6
    assert found.detail == "24 open; the others of decode have 4.0 on average"
    assert value(given, "imbalance", "decode-1") == 0
    given = facts(instance("decode-0", inflight=4), instance("decode-1"))
    assert value(given, "imbalance") == 0


def test_handed_over_requests_that_were_computed_again() -> None:
    pair = "prefill-0>decode-0"

    def share(**kv: float) -> float | None:
        return value(facts(traffic=Traffic(kv={pair: kv})), "silent_recompute", pair)

    assert share(moved=6, cached=2, recomputed=2) == 0.2
    assert share(moved=10, unknown=5) == 0
    assert share(moved=1, recomputed=3) is None  # too few to tell
    assert share(unknown=9) is None
    assert share() == 0


def test_many_failing_pairs_of_one_instance_are_one_signal() -> None:
    def pairs(bad: int) -> tuple[Pair, ...]:
        return tuple(
            Pair(InstanceId("prefill-0"), InstanceId(f"decode-{n}"),
                 "failing" if n < bad else "ok", "no answer")
            for n in range(20)
        )  # fmt: skip

    given = facts(pairs=pairs(2), open_pairs=frozenset({"prefill-0>decode-2"}))
    assert value(given, "pair_failing", "prefill-0>decode-1") == 1
    assert value(given, "pair_failing", "prefill-0>decode-2") == 0
    assert ("pair_failing", "prefill-0>decode-3") not in readings(given)
    given = facts(pairs=pairs(15))
    assert value(given, "pair_failing", "prefill-0") == 15
    assert [key for key in readings(given) if ">" in key[1]] == []
    untried = Pair(InstanceId("prefill-0"), InstanceId("decode-0"), "untried")
    given = facts(pairs=(untried,), open_pairs=frozenset({"prefill-0>decode-0"}))
    assert value(given, "pair_failing", "prefill-0>decode-0") is None


def test_requests_and_the_line() -> None:
    given = facts(
        instance(), load=Load(0, queued=12, circuits={"decode-0": Circuit("open", "refused")}),
        traffic=Traffic(20, 3, burns={"chat": (20.0, 15.0), "batch": None}),
    )  # fmt: skip
    assert value(given, "queue_backing_up", "router") == 12
    assert value(given, "failing_requests", "router") == 0.15
    assert value(given, "slo_burn", "chat") == 15  # both windows must burn
    assert value(given, "slo_burn", "batch") is None
    assert readings(given)["circuit_open", "decode-0"].detail == "refused"
    assert value(facts(traffic=Traffic(3, 3)), "failing_requests", "router") is None


def test_the_machine() -> None:
    given = facts(machine=Machine(0.97, "1 orphaned engine holds 3 GiB", None))
    assert value(given, "disk_nearly_full", "machine") == 0.97
    assert value(given, "orphans", "machine") == 1
    assert ("webhook_failing", "pdctl") not in readings(given)
    assert value(facts(), "disk_nearly_full", "machine") is None
