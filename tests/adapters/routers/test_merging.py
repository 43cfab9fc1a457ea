"""Many workers as one: sums, the oldest table, shares of limits, and what a table knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.adapters.routers.merging import covers, merged, share
from pdctl.domain.handoff import Circuit, Load
from pdctl.domain.ids import InstanceId
from pdctl.domain.kv_events import KvFollowed
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec, SloSpec

P, D = InstanceId("p0"), InstanceId("d0")


def target(id_: InstanceId, generation: int = 1, *, accepts: bool = True) -> Target:
    return Target(id_, "any", Role.BOTH, "127.0.0.1", 1, generation, accepts)


TABLE = RoutingTable(
    5, Mode.PD, "tiny", "nixl", 30.0, RouterSpec(max_inflight_per_instance=5, queue_limit=0),
    (target(P), target(D)), ((P, D),), (SloSpec("chat", ttft_ms=500.0),),
)  # fmt: skip


def test_loads_are_summed_under_the_oldest_table() -> None:
    loads = [Load(4, {"a": 1, "b": 2}, 1, {"pd": 2}), Load(3, {"b": 1}, 2, {"pd": 1, "chunked": 1})]
    assert merged(loads, latest_seq=9) == Load(3, {"a": 1, "b": 3}, 3, {"pd": 3, "chunked": 1})
    assert merged([], latest_seq=9) == Load(9)


def test_holds_are_summed_and_the_oldest_is_the_oldest_of_all() -> None:
    loads = [Load(1, held={"p": (2, 9.0)}), Load(1, held={"p": (1, 4.5), "q": (1, 6.0)})]
    assert merged(loads, latest_seq=1).held == {"p": (3, 4.5), "q": (1, 6.0)}


def test_kv_events_are_followed_as_well_as_by_the_worker_that_knows_least() -> None:
    one = Load(1, kv_events={"p": KvFollowed("", 5, 1, 1, 0, 2.0)})
    two = Load(1, kv_events={"p": KvFollowed("stale", 3, 2, 0, 2, None)})
    both = merged([one, two], latest_seq=1)
    assert both.kv_events == {"p": KvFollowed("stale", 3, 3, 1, 2, 2.0)}


def test_a_circuit_is_as_open_as_at_the_worst_worker_and_it_says_at_how_many() -> None:
    half, whole = Circuit("half_open", "a"), Circuit("open", "b")
    loads = [Load(1, circuits={"x": half}), Load(1, circuits={"x": whole}), Load(1)]
    assert merged(loads, latest_seq=1).circuits == {
        "x": Circuit("open", "b (at 2 of 3 router workers)")
    }
    assert merged(loads[:1], latest_seq=1).circuits == {"x": half}


def test_shares_add_up_to_no_less_than_the_whole() -> None:
    limits = share(TABLE, 2).limits
    assert (limits.max_inflight_per_instance, limits.queue_limit) == (3, 0)
    assert share(TABLE, 1) == TABLE


@pytest.mark.parametrize(
    ("new", "known"),
    [
        (TABLE, True),
        (replace(TABLE, targets=()), False),
        (replace(TABLE, targets=(target(P), target(D, 2))), False),
        (replace(TABLE, pairs=()), False),
        (replace(TABLE, targets=(target(P), target(D, accepts=False)), pairs=()), True),
    ],
    ids=["same", "nobody", "another start", "no pair", "put to rest"],
)
def test_what_a_table_must_know(new: RoutingTable, known: bool) -> None:
    assert covers(new, TABLE) is known
