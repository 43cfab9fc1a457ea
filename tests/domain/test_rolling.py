"""Changes of launch flags: no pair of old with new, no dip where there is room, no deadlock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain import actions as do
from pdctl.domain import pairing
from pdctl.domain.compat import compat, derived
from pdctl.domain.ids import InstanceId
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import FleetSpec, Mode, PoolSpec, PortBand, Role, fingerprint
from tests.domain.sim import Sim
from tests.domain.test_plan_laws import clear_all, is_whole
from tests.fakes.fleets import elastic, fleet, moved_to, reflagged, resized

NEW = "/new/python"


def at_rest(spec: FleetSpec, seed: int = 1) -> Sim:
    sim = Sim(spec, Random(seed))
    sim.rest()
    sim.acted.clear()
    return sim


def surging(spec: FleetSpec, surge: int) -> FleetSpec:
    return replace(spec, pools=tuple(replace(pool, surge=surge) for pool in spec.pools))


def roomy(spec: FleetSpec) -> FleetSpec:
    http, side = PortBand(18000, 18099), PortBand(18100, 18199)
    return replace(spec, http_ports=http, side_channel_ports=side)


def packed(spec: FleetSpec, spare: int = 0, *, shared: bool = False) -> FleetSpec:
    """Each pool with cores for its size and `spare` more, or all on the same cores."""
    total, first, pools = sum(pool.size for pool in spec.pools), 0, list[PoolSpec]()
    for pool in spec.pools:
        count = total + spare if shared else pool.size + spare
        start = 0 if shared else first
        pools.append(replace(pool, cores=tuple(str(start + n) for n in range(count))))
        first += count
    return replace(spec, pools=tuple(pools))


def ready(sim: Sim, role: Role) -> int:
    return sum(one.role is role for one in sim.ready())


def hands_over(sim: Sim) -> bool:
    here = {one.id for one in sim.ready()}
    return any(
        pair.state == pairing.OK and {pair.prefill, pair.decode} <= here for pair in sim.pairs
    )


def calm(sim: Sim, look: Callable[[], None], limit: int = 4000) -> None:
    """Everything goes well, at different speeds; `look` after every moment, until it is whole."""
    sim.troubled = False
    for _ in range(limit):
        ahead = sim.tick()
        look()
        if not ahead.actions and ahead.next_look is None and settled(sim):
            return
        for one in list(sim.instances.values()):
            if sim.rng.random() < 0.4:
                sim.happen(one)
        for pair in sim.pairs:
            if pair.state == pairing.PROBING and sim.rng.random() < 0.4:
                sim.probed(pair)
        sim.now += 1.0
        look()
    raise AssertionError(f"never whole: {ahead}")


def settled(sim: Sim) -> bool:
    return all(one.phase is Phase.READY for one in sim.instances.values())


@st.composite
def worlds(draw: st.DrawFn, *, least: int = 0) -> FleetSpec:
    """A fleet with any room, from none to plenty, shared between pools or not."""
    spec = fleet(draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    spec = replace(spec, mode=draw(st.sampled_from(Mode)))
    spec = surging(spec, draw(st.integers(least, 2)))
    if draw(st.booleans()):
        spec = elastic(spec)
    spare = draw(st.integers(least * 4, 5))
    return spec if spare == 5 else packed(spec, spare, shared=draw(st.booleans()))


def renewed(spec: FleetSpec) -> FleetSpec:
    """Every start that was there first is to be replaced."""
    starts = tuple((InstanceId(f"{p.name}-{n}"), 1) for p in spec.pools for n in range(p.size))
    return replace(spec, orders=replace(spec.orders, renew=starts))


changes = st.sampled_from(
    [lambda spec: moved_to(spec, NEW), lambda spec: reflagged(spec, x=1), renewed]
)


@settings(max_examples=80, deadline=None)
@given(worlds(), changes, st.integers(0, 1 << 30), st.integers(0, 60))
def test_a_change_of_flags_converges_and_so_does_its_undo_in_the_middle(
    spec: FleetSpec, change: Callable[[FleetSpec], FleetSpec], seed: int, moment: int
) -> None:
    sim = at_rest(spec, seed)
    sim.desired = change(spec)
    for _ in range(moment):
        sim.tick()
        for one in list(sim.instances.values()):
            if sim.rng.random() < 0.4:
                sim.happen(one)
        sim.now += 1.0
    if moment % 2:
        sim.desired = spec
    calm(sim, lambda: None)
    is_whole(sim)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 1 << 30))
def test_it_converges_though_things_fail_on_the_way(spec: FleetSpec, seed: int) -> None:
    sim = at_rest(spec, seed)
    sim.troubled = True
    for step in range(40):
        if step % 10 == 0:
            sim.desired = moved_to(spec, NEW) if sim.rng.random() < 0.5 else spec
        sim.tick()
        sim.live()
    clear_all(sim)
    sim.rest()
    clear_all(sim)
    sim.rest()
    is_whole(sim)


@settings(max_examples=80, deadline=None)
@given(worlds(least=1), changes, st.integers(0, 1 << 30), st.booleans())
def test_with_room_no_capacity_is_lost_and_a_pair_hands_over_all_along(
    spec: FleetSpec, change: Callable[[FleetSpec], FleetSpec], seed: int, undo: bool
) -> None:
    sim = at_rest(spec, seed)
    sizes = {pool.role: pool.size for pool in spec.pools}
    surge = {pool.role: pool.surge for pool in spec.pools}

    def look() -> None:
        for role, size in sizes.items():
            assert ready(sim, role) >= size, sim.instances
            there = sum(
                one.role is role and one.phase is not Phase.STOPPED
                for one in sim.instances.values()
            )
            assert there <= size + surge[role], sim.instances
        if spec.mode is Mode.PD:
            assert hands_over(sim), (sim.instances, sim.pairs)

    sim.desired = change(spec)
    if undo:
        for _ in range(sim.rng.randrange(30)):
            sim.tick()
            look()
            for one in list(sim.instances.values()):
                if sim.rng.random() < 0.4:
                    sim.happen(one)
        sim.desired = spec
    calm(sim, look)
    is_whole(sim)


@pytest.mark.parametrize(
    "change", [lambda spec: moved_to(spec, NEW), lambda spec: reflagged(spec, x=1)]
)
def test_who_grows_and_changes_at_once_begins_with_what_is_free(
    change: Callable[[FleetSpec], FleetSpec],
) -> None:
    spec = surging(packed(fleet(2, 2), spare=1), 1)
    sim = at_rest(spec)

    def look() -> None:
        assert min(ready(sim, Role.PREFILL), ready(sim, Role.DECODE)) >= 2, sim.instances

    sim.desired = change(resized(spec, prefill=3, decode=3))
    calm(sim, look)
    is_whole(sim)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 1 << 30))
def test_on_a_full_machine_one_of_a_pool_is_away_at_a_time_and_a_pair_hands_over(
    prefill: int, decode: int, seed: int
) -> None:
    sim = at_rest(packed(fleet(prefill, decode)), seed)

    def look() -> None:
        assert ready(sim, Role.PREFILL) >= prefill - 1
        assert ready(sim, Role.DECODE) >= decode - 1
        assert hands_over(sim)

    sim.desired = moved_to(sim.desired, NEW)
    calm(sim, look)
    is_whole(sim)
    firsts = [one for one in sim.acted if isinstance(one, do.Drain)]
    assert all("goes first, because nothing is free" in one.message for one in firsts)


def failed(sim: Sim) -> list[str]:
    return [one.id for one in sim.instances.values() if one.phase in (Phase.BACKOFF, Phase.FAILED)]


def fail_new(sim: Sim, rounds: int = 60) -> None:
    """Whatever starts with the flags that are wanted now ends at once, by a configuration error."""
    wanted = {pool.name: fingerprint(sim.desired, pool) for pool in sim.desired.pools}
    for _ in range(rounds):
        sim.tick()
        for one in list(sim.instances.values()):
            if one.phase is Phase.STARTING and one.fingerprint == wanted[one.pool]:
                sim.crash(one)
                hurt = sim.instances[one.id]
                sim.instances[one.id] = replace(hurt, reason=Reason.CONFIG_ERROR)
            elif one.phase in (Phase.DRAINING, Phase.STOPPING):
                sim.happen(one)
        sim.now += 1.0


@pytest.mark.parametrize("surge", [1, 2])
def test_a_failing_flag_costs_no_capacity_where_there_is_room_and_undo_touches_no_old_one(
    surge: int,
) -> None:
    sim = at_rest(surging(fleet(2, 3), surge))
    old = {one.id: one.generation for one in sim.instances.values()}
    spec, sim.desired = sim.desired, moved_to(sim.desired, NEW)
    fail_new(sim)
    assert (ready(sim, Role.PREFILL), ready(sim, Role.DECODE)) == (2, 3)
    assert len(failed(sim)) == 2 * surge
    notes = sim.tick().notes
    assert any("`pdctl undo` goes back" in note for note in notes)
    sim.desired = spec
    sim.rest()
    is_whole(sim)
    assert {one.id: one.generation for one in sim.instances.values()} == old


def test_a_failing_flag_on_a_full_machine_stops_after_one_of_each_pool() -> None:
    sim = at_rest(packed(fleet(2, 3)))
    old = {one.id: one.generation for one in sim.instances.values()}
    spec, sim.desired = sim.desired, moved_to(sim.desired, NEW)
    fail_new(sim)
    assert (ready(sim, Role.PREFILL), ready(sim, Role.DECODE)) == (1, 2)
    lost = failed(sim)
    assert len(lost) == 2
    sim.desired = spec
    sim.rest()
    is_whole(sim)
    kept = {one.id: one.generation for one in sim.instances.values() if one.id not in lost}
    assert kept == {id_: n for id_, n in old.items() if id_ not in lost}


def test_an_undo_calls_back_what_was_only_drained() -> None:
    sim = at_rest(packed(fleet(2, 2)))
    spec, sim.desired = sim.desired, moved_to(sim.desired, NEW)
    sim.tick()
    assert {one.phase for one in sim.instances.values()} == {Phase.READY, Phase.DRAINING}
    sim.desired = spec
    sim.rest()
    assert {one.generation for one in sim.instances.values()} == {1}


def test_ends_that_may_not_pair_are_shown_so_and_ready_does_not_wait_for_them() -> None:
    sim = at_rest(fleet(1, 1))
    sim.desired = moved_to(resized(sim.desired, decode=1), NEW)
    sim.tick()
    pairs = pairing.sync(list(sim.instances.values()), sim.pairs)
    states = {(pair.prefill, pair.decode): pair.state for pair in pairs}
    assert states == {
        ("prefill-0", "decode-0"): pairing.OK,
        ("prefill-0", "decode-1"): pairing.INCOMPATIBLE,
        ("prefill-1", "decode-0"): pairing.INCOMPATIBLE,
        ("prefill-1", "decode-1"): pairing.UNTRIED,
    }
    odd = next(pair for pair in pairs if pair.state == pairing.INCOMPATIBLE)
    assert "differ in flags that a handoff needs to agree" in odd.message
    assert not pairing.due(sim.instances, [odd], sim.now)
    agreed = [replace(one, compat="same") for one in sim.instances.values()]
    assert {pair.state for pair in pairing.sync(agreed, pairs)} == {pairing.OK, pairing.UNTRIED}


def test_only_what_both_ends_must_share_changes_the_hash() -> None:
    spec = fleet()
    pool = spec.pools[0]
    same = [
        reflagged(spec, max_num_batched_tokens=4096, gpu_memory_utilization=0, block_size=16),
        replace(spec, connector=replace(spec.connector, lease_s=60)),
        replace(spec, connector=replace(spec.connector, options=(("num_threads", 4),))),
        replace(spec, engine=replace(spec.engine, env=(("UCX_TLS", "tcp"),))),
        surging(spec, 3),
    ]
    assert {compat(one, pool) for one in same} == {compat(spec, pool)}
    other = [
        moved_to(spec, NEW),
        replace(spec, model="another"),
        replace(spec, engine=replace(spec.engine, args=(("revision", "v2"),))),
        replace(spec, engine=replace(spec.engine, args=(("--kv_cache_dtype", "fp8"),))),
        replace(spec, engine=replace(spec.engine, env=(("VLLM_ATTENTION_BACKEND", "X"),))),
        replace(spec, connector=replace(spec.connector, name="other")),
        replace(spec, connector=replace(spec.connector, options=(("backends", "UCX"),))),
    ]
    assert len({compat(spec, pool), *(compat(one, pool) for one in other)}) == 1 + len(other)
    assert len({compat(spec, each) for each in spec.pools}) == 1
    mine = replace(pool, args=(("dtype", "float16"),))
    assert compat(spec, mine) != compat(spec, pool)


def test_a_record_without_the_hash_gets_it_where_its_flags_are_the_desired_ones() -> None:
    sim = at_rest(fleet())
    one = replace(next(iter(sim.instances.values())), compat="")
    assert derived(sim.desired, one) == compat(sim.desired, sim.desired.pools[0])
    assert derived(reflagged(sim.desired, x=1), one) == ""
    assert derived(sim.desired, replace(one, compat="known")) == "known"


def test_eight_prefills_and_twenty_four_decodes_roll_in_proportion_and_back() -> None:
    sim = at_rest(roomy(surging(fleet(8, 24), 2)))
    spec, lowest = sim.desired, [99, 99]

    def look() -> None:
        old = [one for one in sim.ready() if one.compat == compat(spec, spec.pools[0])]
        prefill = sum(one.role is Role.PREFILL for one in old)
        decode = len(old) - prefill
        assert ready(sim, Role.PREFILL) >= 8
        assert ready(sim, Role.DECODE) >= 24
        assert hands_over(sim)
        if sim.desired is not spec:
            assert prefill / 8 >= decode / 24 - 3 / 8, (prefill, decode)
        lowest[:] = min(lowest[0], prefill), min(lowest[1], decode)

    sim.desired, sim.troubled = moved_to(spec, NEW), False
    for _ in range(150):
        sim.tick()
        look()
        for one in list(sim.instances.values()):
            sim.happen(one)
        for pair in sim.pairs:
            if pair.state == pairing.PROBING:
                sim.probed(pair)
        sim.now += 1.0
        if lowest[1] <= 12:
            break
    assert lowest[1] <= 12
    sim.desired = spec
    calm(sim, look)
    is_whole(sim)
