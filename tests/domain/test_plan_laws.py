"""The laws of the planner, each over worlds in which whatever may go wrong goes wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain import actions as do
from pdctl.domain import pairing
from pdctl.domain.ids import PoolName
from pdctl.domain.instance import Vitals
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.plan import plan
from pdctl.domain.retry import MAX_FAILURES
from pdctl.domain.topology import FleetSpec, Mode, PoolSpec, Role, fingerprint
from tests.domain.sim import Sim
from tests.fakes.fleets import fleet, moved_to, reflagged

sizes = st.integers(0, 3)


@st.composite
def fleets(draw: st.DrawFn, *, roomy: bool = True) -> FleetSpec:
    """A fleet of two or three pools, with or without devices of their own."""
    spec = fleet(draw(sizes), draw(sizes), both=draw(st.integers(0, 2)))
    if draw(st.booleans()):
        start, pools = 0, list[PoolSpec]()
        for pool in spec.pools:
            room = 4 if roomy else max(pool.size, 1)
            pools.append(replace(pool, cores=tuple(str(start + n) for n in range(room))))
            start += room
        spec = replace(spec, pools=tuple(pools))
    return replace(spec, mode=draw(st.sampled_from(Mode)))


def resized(spec: FleetSpec, rng: Random) -> FleetSpec:
    pools = tuple(replace(pool, size=rng.randrange(4)) for pool in spec.pools)
    return replace(spec, pools=pools)


def changed(spec: FleetSpec, rng: Random) -> FleetSpec:
    """What an operator may want next."""
    choice = rng.randrange(6)
    if choice == 0:
        return replace(spec, mode=rng.choice(list(Mode)))
    if choice == 1:
        return reflagged(spec, max_num_seqs=rng.randrange(3))
    if choice == 2 and len(spec.pools) > 2:
        return replace(spec, pools=spec.pools[:-1])
    if choice == 3:
        return moved_to(spec, rng.choice(["/old/python", "/new/python"]))
    if choice == 4:
        pools = tuple(replace(pool, surge=rng.randrange(3)) for pool in spec.pools)
        return reflagged(replace(spec, pools=pools), max_num_seqs=rng.randrange(3))
    return resized(spec, rng)


def is_whole(sim: Sim) -> None:
    """Every pool has its size of fresh READY instances, and nothing else is there."""
    for pool in sim.desired.pools:
        mine = [one for one in sim.instances.values() if one.pool == pool.name]
        assert [one.phase for one in mine] == [Phase.READY] * pool.size, sim.instances
        assert {one.fingerprint for one in mine} <= {fingerprint(sim.desired, pool)}
    names = {pool.name for pool in sim.desired.pools}
    assert {one.pool for one in sim.instances.values()} <= names


def clear_all(sim: Sim) -> None:
    """An operator clears whatever was given up."""
    failed = {
        (one.id, one.generation)
        for one in sim.instances.values()
        if one.phase in (Phase.FAILED, Phase.BACKOFF)
    }
    sim.wishes = replace(sim.wishes, clear=frozenset(failed))


@settings(max_examples=60, deadline=None)
@given(fleets(), st.integers(0, 1 << 30), st.integers(5, 60))
def test_it_converges_and_is_then_silent(spec: FleetSpec, seed: int, steps: int) -> None:
    sim = Sim(spec, Random(seed))
    for _ in range(steps):
        sim.tick()
        sim.live()
        if sim.rng.random() < 0.08:
            sim.desired = changed(sim.desired, sim.rng)
        if sim.instances and sim.rng.random() < 0.05:
            one = sim.rng.choice(list(sim.instances.values()))
            sim.wishes = replace(
                sim.wishes, restart=sim.wishes.restart | {(one.id, one.generation)}
            )
    clear_all(sim)
    sim.rest()
    clear_all(sim)
    sim.rest()
    is_whole(sim)
    assert plan(
        sim.desired, list(sim.instances.values()), sim.pairs, sim.now + 1e6, sim.wishes
    ).actions in ((), tuple(do.Settle(one.id) for one in sim.instances.values() if one.failures))


@settings(max_examples=40, deadline=None)
@given(fleets(roomy=False), st.integers(0, 1 << 30))
def test_scarce_devices_never_have_two_owners_and_are_all_used(spec: FleetSpec, seed: int) -> None:
    sim = Sim(spec, Random(seed))
    for _ in range(30):
        sim.tick()
        sim.live()
        if sim.rng.random() < 0.1:
            sim.desired = reflagged(sim.desired, max_num_seqs=sim.rng.randrange(3))
    clear_all(sim)
    sim.rest()
    is_whole(sim)


@settings(max_examples=40, deadline=None)
@given(fleets(), st.integers(0, 1 << 30), st.integers(0, 40))
def test_closing_ends_everything_whatever_state_it_is_in(
    spec: FleetSpec, seed: int, steps: int
) -> None:
    sim = Sim(spec, Random(seed))
    for _ in range(steps):
        sim.tick()
        sim.live()
    sim.wishes = replace(sim.wishes, close_by=sim.now + 10)
    launched = len([one for one in sim.acted if isinstance(one, do.Launch)])
    sim.rest()
    assert not sim.instances
    assert len([one for one in sim.acted if isinstance(one, do.Launch)]) == launched


@settings(max_examples=30, deadline=None)
@given(fleets(), st.integers(0, 1 << 30))
def test_ready_comes_after_every_live_pair_was_tried(spec: FleetSpec, seed: int) -> None:
    sim = Sim(spec, Random(seed))
    for _ in range(40):
        observed = list(sim.instances.values())
        sim.pairs = pairing.sync(observed, sim.pairs)
        ahead = plan(sim.desired, observed, sim.pairs, sim.now, sim.wishes)
        ready = {one.id for one in ahead.actions if isinstance(one, do.MarkReady)}
        for pair in sim.pairs:
            ends = {sim.instances[pair.prefill].phase, sim.instances[pair.decode].phase}
            if {pair.prefill, pair.decode} & ready and ends <= pairing.PROBEABLE:
                assert pair.state in (pairing.OK, pairing.FAILING)
        probes = [one.prefill for one in ahead.actions if isinstance(one, do.ProbePair)]
        assert len(probes) == len(set(probes))
        busy = {pair.prefill for pair in sim.pairs if pair.state == pairing.PROBING}
        assert not busy & set(probes)
        sim.tick()
        sim.live()


def test_a_restart_makes_its_pairs_untried() -> None:
    sim = Sim(fleet(1, 1), Random(1))
    sim.rest()
    (pair,) = sim.pairs
    assert pair.state == pairing.OK
    sim.crash(next(one for one in sim.instances.values() if one.role is Role.DECODE))
    sim.rest()
    assert sim.pairs[0].generations == (1, 2)
    assert len([one for one in sim.acted if isinstance(one, do.ProbePair)]) == 2


def test_failures_are_given_up_in_the_end_and_a_config_error_at_once() -> None:
    for reason, failures in ((Reason.EXITED, MAX_FAILURES), (Reason.CONFIG_ERROR, 1)):
        sim = Sim(fleet(0, 1), Random(1))
        sim.rest()
        (one,) = sim.instances.values()
        broken = replace(
            one, phase=Phase.BACKOFF, reason=reason, failures=failures, retry_at=sim.now,
            vitals=Vitals(),
        )  # fmt: skip
        ahead = plan(sim.desired, [broken], (), sim.now)
        assert [type(action) for action in ahead.actions] == [do.GiveUp]
        again = replace(broken, failures=MAX_FAILURES - 1, reason=Reason.EXITED)
        assert plan(sim.desired, [again], (), sim.now).actions == (do.Retry(one.id),)
        later = replace(again, retry_at=sim.now + 9)
        assert plan(sim.desired, [later], (), sim.now).next_look == sim.now + 9


def test_a_pool_that_is_gone_takes_its_instances_along() -> None:
    sim = Sim(fleet(1, 1, both=1), Random(1))
    sim.rest()
    sim.desired = replace(
        sim.desired,
        pools=tuple(pool for pool in sim.desired.pools if pool.name != PoolName("both")),
    )
    sim.rest()
    assert sorted(sim.instances) == ["decode-0", "prefill-0"]
