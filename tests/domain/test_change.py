"""What an operator may ask for, in words, and what the desired fleet becomes by it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pdctl.domain.change import Change, Changed, apply_to, parse
from pdctl.domain.errors import OperatorError
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import FleetSpec, Mode, PoolSpec, Role
from tests.domain.sim import Sim
from tests.fakes.fleets import fleet, reflagged


def changed(change: Change, spec: FleetSpec | None = None) -> Changed:
    sim = Sim(spec or fleet(1, 2), Random(1))
    sim.rest()
    return apply_to(change, sim.desired, list(sim.instances.values()))


def sizes(spec: FleetSpec) -> dict[str, int]:
    return {pool.name: pool.size for pool in spec.pools}


def test_words() -> None:
    assert parse(["prefill=2", "decode=0", "mode=chunked"]) == Change(
        mode=Mode.CHUNKED, sizes=(("prefill", 2), ("decode", 0))
    )
    assert parse([]) == Change()


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("decode", "POOL=SIZE"),
        ("decode=", "POOL=SIZE"),
        ("=2", "POOL=SIZE"),
        ("decode=-1", "whole number from 0"),
        ("decode=2.5", "whole number from 0"),
        ("decode=99999", "whole number from 0"),
        ("decode=²", "whole number from 0"),
        ("mode=p", "Modes: chunked, pd"),
        ("mode=chunkd", "Did you mean 'chunked'"),
    ],
)
def test_words_that_cannot_be_meant(word: str, hint: str) -> None:
    with pytest.raises(OperatorError) as caught:
        parse([word])
    assert hint in caught.value.hint


def test_sizes_and_mode_together() -> None:
    made = changed(parse(["decode=3", "mode=chunked"]))
    assert sizes(made.fleet) == {"prefill": 1, "decode": 3}
    assert made.fleet.mode is Mode.CHUNKED
    assert made.said == ("decode 2 -> 3", "mode pd -> chunked")
    assert made.refused == ()


def test_a_role_stands_for_the_one_pool_that_has_it() -> None:
    spec = fleet(1, 2)
    named = replace(
        spec,
        pools=tuple(replace(pool, name=PoolName(f"{pool.name}-a100")) for pool in spec.pools),
    )
    assert sizes(changed(parse(["decode=1"]), named).fleet)["decode-a100"] == 1
    two = replace(named, pools=(*named.pools, PoolSpec(PoolName("slow"), Role.DECODE, 0)))
    (refusal,) = changed(parse(["decode=1"]), two).refused
    assert refusal.code == "which_pool"
    assert "decode-a100, slow" in refusal.message


def test_a_refused_change_is_not_half_applied() -> None:
    made = changed(parse(["decode=3", "encode=1"]))
    assert [one.code for one in made.refused] == ["no_such_pool"]
    assert sizes(made.fleet) == {"prefill": 1, "decode": 2}


def test_stop_takes_this_one_and_lowers_the_size() -> None:
    made = changed(Change(stop=("decode-0",)))
    assert made.fleet.orders.leaving == ((InstanceId("decode-0"), 1),)
    assert sizes(made.fleet)["decode"] == 1
    assert made.said == ("stop decode-0", "decode 2 -> 1")
    both = changed(Change(stop=("decode-0",), sizes=(("decode", 1),)))
    assert sizes(both.fleet)["decode"] == 1
    last = changed(Change(stop=("decode-0", "decode-1")))
    assert {one.code for one in last.refused} == {"last_of_role"}
    asked = changed(Change(stop=("decode-0", "decode-1"), sizes=(("decode", 0),)))
    assert asked.refused == ()


def test_the_last_of_a_role_may_go_in_chunked_mode_as_long_as_something_serves() -> None:
    spec = fleet(1, 1, mode=Mode.CHUNKED)
    assert changed(Change(stop=("decode-0",)), spec).refused == ()
    both = changed(Change(stop=("decode-0", "prefill-0")), spec)
    assert {one.code for one in both.refused} == {"last_of_role"}


def test_move_shrinks_one_pool_and_grows_the_other() -> None:
    made = changed(Change(move=(("decode-1", "prefill"),)))
    assert sizes(made.fleet) == {"prefill": 2, "decode": 1}
    assert made.fleet.orders.leaving == ((InstanceId("decode-1"), 1),)
    assert changed(Change(move=(("decode-1", "decode"),))).said == ()


def test_drain_and_undrain() -> None:
    made = changed(Change(drain=("decode-1",)))
    assert made.fleet.orders.drained == ("decode-1",)
    again = changed(Change(drain=("decode-1",)), made.fleet)
    assert again.said == ()
    back = changed(Change(undrain=("decode-1",)), made.fleet)
    assert back.fleet.orders.drained == ()
    assert changed(Change(undrain=("decode-1",))).said == ()


def test_what_leaves_for_good_cannot_be_undrained_but_grown() -> None:
    sim = Sim(fleet(1, 2), Random(1))
    sim.rest()
    one = sim.instances[InstanceId("decode-1")]
    leaving = replace(one, phase=Phase.DRAINING, reason=Reason.SCALE_DOWN, message="decode wants 1")
    made = apply_to(Change(undrain=("decode-1",)), sim.desired, [leaving])
    assert "Make decode larger" in made.refused[0].hint


def test_restart_names_starts_so_that_it_ends() -> None:
    made = changed(Change(restart=("decode",)))
    assert made.fleet.orders.renew == (("decode-0", 1), ("decode-1", 1))
    assert made.said == ("restart decode, one at a time (2 instances)",)
    one = changed(Change(restart=("prefill-0",)))
    assert one.fleet.orders.renew == (("prefill-0", 1),)


def test_another_file_is_told_key_by_key_and_keeps_what_is_not_in_files() -> None:
    spec = fleet(1, 2)
    new = reflagged(replace(spec, pools=spec.pools[:1], model="other"), max_num_seqs=3)
    added = PoolSpec(PoolName("extra"), Role.DECODE, 1)
    made = changed(Change(fleet=replace(new, pools=(*new.pools, added))), spec)
    assert made.said == (
        "model tiny -> other",
        "engine.args.max-num-seqs nothing -> 3",
        "pool extra added (1 decode)",
        "pool decode removed",
    )
    assert made.fleet.revision == spec.revision


SPEC = fleet()


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, name="x"),
        replace(SPEC, engine=replace(SPEC.engine, launcher="simulated")),
        replace(SPEC, connector=replace(SPEC.connector, name="other")),
        replace(SPEC, router=replace(SPEC.router, port=9)),
    ],
    ids=["name", "launcher", "connector", "router"],
)
def test_what_the_server_was_built_around_stays(other: FleetSpec) -> None:
    (refusal,) = changed(Change(fleet=other), SPEC).refused
    assert refusal.code == "needs_restart"
