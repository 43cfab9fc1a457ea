"""A rehearsal ends, ends well or says why not, and foresees what the planner then does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain import holding, outlook
from pdctl.domain.change import Change, apply_to
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.pace import Pace, Span
from pdctl.domain.rehearsal import Rehearsal, rehearse, settled
from pdctl.domain.topology import FleetSpec, Mode, Orders, Role
from tests.domain.sim import Sim
from tests.domain.test_plan_laws import changed, clear_all, fleets
from tests.fakes.fleets import fleet, reflagged, resized

PACE = Pace()


def play(sim: Sim, desired: FleetSpec) -> Rehearsal:
    return rehearse(desired, list(sim.instances.values()), sim.pairs, sim.now, pace=PACE)


def at_rest(spec: FleetSpec, seed: int = 1) -> Sim:
    sim = Sim(spec, Random(seed))
    sim.rest()
    return sim


@settings(max_examples=60, deadline=None)
@given(fleets(), st.integers(0, 1 << 30), st.integers(0, 30))
def test_it_ends_from_whatever_state_and_is_whole_where_there_is_room(
    spec: FleetSpec, seed: int, steps: int
) -> None:
    sim = Sim(spec, Random(seed))
    for _ in range(steps):
        sim.tick()
        sim.live()
    wanted = changed(spec, sim.rng)
    broken = [one for one in sim.instances.values() if one.phase in (Phase.FAILED, Phase.BACKOFF)]
    ahead = play(sim, wanted)
    assert ahead.reached or broken, ahead.notes
    if ahead.reached:
        assert settled(wanted, ahead.instances, ())
        assert outlook.refusals(wanted, ahead) == []


@settings(max_examples=60, deadline=None)
@given(fleets(roomy=False), st.integers(0, 1 << 30))
def test_what_cannot_be_reached_is_refused_with_a_sentence(spec: FleetSpec, seed: int) -> None:
    sim = at_rest(spec, seed)
    wanted = changed(spec, sim.rng)
    ahead = play(sim, wanted)
    refused = outlook.refusals(wanted, ahead)
    assert ahead.reached == (not refused), (ahead.notes, ahead.instances)
    assert all(one.message and one.hint for one in refused)


@settings(max_examples=60, deadline=None)
@given(fleets(), st.integers(0, 1 << 30))
def test_a_role_is_never_dropped_in_pd_unless_none_was_asked_for(
    spec: FleetSpec, seed: int
) -> None:
    spec = replace(spec, mode=Mode.PD)
    sim = at_rest(spec, seed)
    wanted = replace(changed(spec, sim.rng), mode=Mode.PD)
    ahead = play(sim, wanted)
    first = ahead.capacity[0]
    went_first = any("goes first" in step.why for step in ahead.steps)
    for role in (Role.PREFILL, Role.DECODE):
        asked = sum(pool.size for pool in wanted.pools if pool.role in (role, Role.BOTH))
        lowest = min(int(getattr(point, role.value)) for point in ahead.capacity)
        if getattr(first, role.value) and asked and not went_first:
            assert lowest > 0, (ahead.capacity, ahead.steps)


@settings(max_examples=40, deadline=None)
@given(fleets(), st.integers(0, 1 << 30))
def test_it_foresees_what_the_planner_does_in_a_world_without_trouble(
    spec: FleetSpec, seed: int
) -> None:
    sim = at_rest(spec, seed)
    wanted = changed(spec, sim.rng)
    ahead = play(sim, wanted)
    sim.desired, sim.acted = wanted, []
    sim.rest()
    if ahead.reached:
        shape = sorted((one.pool, one.fingerprint) for one in sim.instances.values())
        assert shape == sorted((one.pool, one.fingerprint) for one in ahead.instances)
    done = {str(action.id) for action in sim.acted if hasattr(action, "id")}
    assert {step.subject for step in ahead.steps if step.kind != "probe"} <= done


def test_steps_say_where_what_and_how_long() -> None:
    sim = at_rest(fleet(1, 1, cores=("0", "1", "2")))
    pace = Pace()
    pace.add("decode", Span.START, 12.0)
    pace.add("decode", Span.START, 14.0)
    wanted = resized(sim.desired, decode=2)
    ahead = rehearse(wanted, list(sim.instances.values()), sim.pairs, sim.now, pace=pace)
    assert [(s.kind, s.subject) for s in ahead.steps] == [
        ("launch", "decode-1"),
        ("warm", "decode-1"),
        ("probe", "prefill-0>decode-1"),
        ("ready", "decode-1"),
    ]
    launch = ahead.steps[0]
    assert launch.slot is not None
    assert (launch.slot.core, launch.ports) == ("2", (18002, 18102))
    assert (launch.starts_s, launch.ends_s, launch.samples) == (0.0, 13.0, 2)
    assert ahead.steps[1].samples == 0
    assert [(c.prefill, c.decode) for c in ahead.capacity] == [(1, 1), (1, 2)]
    assert ahead.took_s == 13.0 + 2.0 + 1.0


def busy(sim: Sim, **legs: int) -> None:
    for name, count in legs.items():
        id_ = InstanceId(name.replace("_", "-"))
        sim.instances[id_] = replace(sim.instances[id_], inflight=count)


def test_a_shrink_takes_the_least_loaded_and_names_its_streams_and_leases() -> None:
    sim = at_rest(fleet(2, 1))
    busy(sim, prefill_0=2, prefill_1=5)
    wanted = resized(sim.desired, prefill=1)
    ahead = play(sim, wanted)
    drain = ahead.steps[0]
    assert (drain.kind, drain.subject, drain.streams, drain.lease_s) == (
        "drain",
        "prefill-0",
        2,
        10.0,
    )
    stop = next(step for step in ahead.steps if step.kind == "stop")
    assert stop.starts_s >= 10.0 + 10.0  # its streams, then the lease of what it prefilled last
    risks = outlook.risks(sim.desired, wanted, list(sim.instances.values()), ahead)
    assert any("2 streams on prefill-0 may go on for 300 s" in risk for risk in risks)
    assert any("up to 10 s after its last stream" in risk for risk in risks)


def test_a_full_machine_relaunches_one_role_at_a_time_and_says_what_it_costs() -> None:
    sim = at_rest(fleet(1, 1, cores=("0", "1")))
    wanted = reflagged(sim.desired, max_num_seqs=9)
    ahead = play(sim, wanted)
    assert ahead.reached
    assert min(point.serving for point in ahead.capacity) == 1
    risks = outlook.risks(sim.desired, wanted, list(sim.instances.values()), ahead)
    assert any(risk.startswith("no prefill is ready for") for risk in risks)
    assert any(risk.startswith("no decode is ready for") for risk in risks)


def test_a_failed_instance_keeps_the_old_flags_of_the_others() -> None:
    sim = at_rest(fleet(1, 2))
    one = sim.instances[InstanceId("decode-0")]
    failed = replace(one, phase=Phase.FAILED, reason=Reason.CONFIG_ERROR, message="no such flag")
    wanted = reflagged(sim.desired, max_num_seqs=9)
    sim.instances[one.id] = replace(failed, fingerprint="of the new flags")
    sim.desired = wanted
    serving = {one.id for one in sim.ready()}
    for _ in range(3):
        sim.tick()
    assert {"decode-1"} <= serving
    assert sim.instances[InstanceId("decode-1")].phase is Phase.READY


# Standing orders, over worlds in which things go wrong.


def ordered(spec: FleetSpec, sim: Sim, rng: Random) -> FleetSpec:
    here: list[Instance] = list(sim.instances.values())
    if not here:
        return spec
    one = rng.choice(here)
    change = rng.choice(
        [
            Change(drain=(one.id,)),
            Change(undrain=(one.id,)),
            Change(stop=(one.id,)),
            Change(restart=(one.id,)),
        ]
    )
    return apply_to(change, spec, here).fleet


@settings(max_examples=60, deadline=None)
@given(fleets(), st.integers(0, 1 << 30), st.integers(5, 50))
def test_orders_converge_and_what_is_held_is_never_stopped_for_it(
    spec: FleetSpec, seed: int, steps: int
) -> None:
    sim = Sim(spec, Random(seed))
    for _ in range(steps):
        sim.tick()
        sim.live()
        if sim.rng.random() < 0.2:
            sim.desired = ordered(sim.desired, sim, sim.rng)
    for _ in range(2):
        clear_all(sim)
        sim.rest()
    drained = set(sim.desired.orders.drained)
    for pool in sim.desired.pools:
        mine = [one for one in sim.instances.values() if one.pool == pool.name]
        if len(mine) != pool.size:  # the last that serves stays, when all the others are held
            assert drained & set(sim.instances)  # perhaps in another pool of its role
            assert len(mine) == pool.size + 1
        for one in mine:
            if one.phase is Phase.READY:
                last = is_last(one, [x for x in sim.ready() if x.id != one.id])
                assert one.id not in drained or last or sim.desired.mode is Mode.CHUNKED
            else:
                assert holding.is_held(one)
                assert one.id in drained


def is_last(one: Instance, others: list[Instance]) -> bool:
    """Some role that it serves is served by none of the others."""
    roles = [Role.PREFILL, Role.DECODE] if one.role is Role.BOTH else [one.role]
    return any(not [x for x in others if x.role in (role, Role.BOTH)] for role in roles)


def test_an_order_about_an_instance_that_left_is_dropped() -> None:
    sim = at_rest(fleet(1, 2))
    here = list(sim.instances.values())
    gone = (InstanceId("decode-9"), 1)
    orders = Orders(drained=(gone[0],), leaving=(gone,), renew=(gone,))
    after = apply_to(Change(mode=Mode.CHUNKED), replace(sim.desired, orders=orders), here).fleet
    assert after.orders == Orders()


@settings(max_examples=60, deadline=None)
@given(fleets(), st.integers(0, 1 << 30), st.integers(0, 400))
def test_what_is_folded_shows_the_first_steps_of_the_whole(
    spec: FleetSpec, seed: int, budget: int
) -> None:
    sim = at_rest(spec, seed)
    wanted = reflagged(changed(spec, sim.rng), max_num_seqs=9)
    here, whole = list(sim.instances.values()), play(sim, wanted)
    ahead = rehearse(wanted, here, sim.pairs, sim.now, pace=PACE, budget=budget)
    if ahead.rest is None:
        assert ahead == whole
        return
    first = whole.steps[: len(ahead.steps)]
    assert [replace(step, ends_s=None) for step in ahead.steps] == [
        replace(step, ends_s=None) for step in first
    ]
    assert all(
        mine.ends_s in (None, step.ends_s) for mine, step in zip(ahead.steps, first, strict=True)
    )
    shown = ahead.capacity[:-1]
    assert shown[:-1] == whole.capacity[: len(shown) - 1]
    assert not ahead.reached
    assert ahead.rest.seen_s <= whole.took_s
    assert sum(count for _, count in ahead.rest.left) <= ahead.rest.total


def test_what_is_left_is_counted_and_timed_by_what_was_seen() -> None:
    sim = at_rest(fleet(4, 4))
    wanted = reflagged(sim.desired, max_num_seqs=9)
    here, whole = list(sim.instances.values()), play(sim, wanted)
    ahead = rehearse(wanted, here, sim.pairs, sim.now, pace=PACE, budget=500)
    rest = ahead.rest
    assert rest is not None
    assert (rest.total, rest.at_least) == (8, False)
    assert 0 < sum(count for _, count in rest.left) < 8
    assert ahead.took_s == rest.took_s > rest.seen_s
    assert abs(rest.took_s - whole.took_s) < 0.5 * whole.took_s
    assert "not rehearsed one by one" in rest.words
    said = outlook.risks(sim.desired, wanted, here, ahead)
    assert any(risk.startswith("the same goes on for") for risk in said)
    assert outlook.refusals(wanted, ahead) == []
    assert (ahead.capacity[-1].prefill, ahead.capacity[-1].decode) == (4, 4)
