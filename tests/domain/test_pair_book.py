"""A book of pairs that follows its instances step by step is the one made from all of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain import pairing
from pdctl.domain.pair_book import PairBook
from pdctl.domain.plan import plan
from pdctl.domain.topology import FleetSpec, Role
from tests.domain.sim import Sim
from tests.domain.test_plan_laws import changed, fleets
from tests.fakes.fleets import fleet


def same(book: PairBook, other: PairBook) -> bool:
    return (book.all, book.open, book.timed, book.proved) == (
        other.all,
        other.open,
        other.timed,
        other.proved,
    )


@settings(max_examples=60, deadline=None)
@given(fleets(), st.integers(0, 1 << 30))
def test_steps_give_the_same_book_as_the_whole_and_the_same_plan(
    spec: FleetSpec, seed: int
) -> None:
    sim = Sim(spec, Random(seed))
    sim.tick()
    observed = list(sim.instances.values())
    book = PairBook.of(observed, sim.pairs)
    for turn in range(40):
        if turn == 10:
            sim.desired = changed(spec, sim.rng)
        sim.tick()
        sim.live()
        observed = list(sim.instances.values())
        for pair in sim.pairs:
            if pair != book.all.get((pair.prefill, pair.decode)):
                book.put(pair)
        book.sync(sim.instances)
        assert same(book, PairBook.of(observed, sim.pairs))
        assert plan(sim.desired, observed, book, sim.now) == plan(
            sim.desired, observed, sim.pairs, sim.now
        )


def test_a_pair_goes_with_its_ends_and_comes_back_untried() -> None:
    sim = Sim(fleet(1, 1), Random(1))
    sim.rest()
    book = PairBook.of(list(sim.instances.values()), sim.pairs)
    assert len(book.proved) == 1
    (old,) = [one for one in sim.instances.values() if one.role is Role.DECODE]
    book.sync({one.id: one for one in sim.instances.values() if one is not old})
    assert not book.all
    assert not book.proved
    again = replace(old, generation=old.generation + 1)
    book.sync({**sim.instances, old.id: again})
    (pair,) = book.open.values()
    assert (pair.state, pair.generations[1]) == (pairing.UNTRIED, again.generation)
