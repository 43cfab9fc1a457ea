"""Back to an earlier revision: a plan like any other, and the fleet as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.domain.change import Change, parse
from pdctl.domain.lifecycle import Phase
from pdctl.domain.runs import RunState
from pdctl.domain.topology import FleetSpec, Mode
from tests.fakes.asking import Who
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World

WHO: Who = {"actor": "ada", "source": "cli"}


async def change(plane: Plane, asked: Change) -> None:
    record = await plane.plans.make(asked, **WHO)
    await finish(plane, record.id)


async def finish(plane: Plane, id_: str) -> None:
    run = await plane.plans.apply(id_, **WHO)
    await plane.clock.until(lambda: plane.plans.runs.get(run.id).state is not RunState.RUNNING)
    assert plane.plans.runs.get(run.id).state is RunState.DONE, plane.plans.runs.get(run.id).message


def same(one: FleetSpec, other: FleetSpec) -> bool:
    return replace(one, revision=0) == replace(other, revision=0)


@pytest.mark.parametrize(
    "asked",
    [
        parse(["decode=1"]),
        parse(["decode=3", "mode=chunked"]),
        Change(drain=("decode-1",)),
        Change(stop=("decode-0",)),
    ],
)
async def test_undo_wants_what_was_wanted_and_twice_is_redo(world: World, asked: Change) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        first = plane.state.fleet.desired
        await change(plane, asked)
        second = plane.state.fleet.desired
        record = await plane.plans.make_undo(first, **WHO)
        assert (record.verb, record.refused) == ("undo", ())
        assert record.said[0] == "back to revision 1"
        await finish(plane, record.id)
        assert same(plane.state.fleet.desired, first)
        assert plane.state.fleet.desired.revision == 3
        await plane.ready()
        again = await plane.plans.make_undo(second, **WHO)
        assert again.after.pools == second.pools
        assert again.after.mode == second.mode
        assert again.after.orders.drained == second.orders.drained


async def test_what_is_like_that_already_is_nothing_to_do(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        first = plane.state.fleet.desired
        await change(plane, Change(restart=("decode-1",)))
        await plane.ready()
        record = await plane.plans.make_undo(first, **WHO)
        assert [one.code for one in record.refused] == ["nothing_to_do"], record.said


async def test_an_undo_in_the_middle_calls_the_rest_back(world: World) -> None:
    async with Plane(world, fleet(1, 2, mode=Mode.PD)) as plane:
        await plane.ready()
        first = plane.state.fleet.desired
        for id_ in ("decode-0", "decode-1"):
            plane.data_plane.open(id_, 1)
        record = await plane.plans.make(parse(["decode=1"]), **WHO)
        begun = await plane.plans.apply(record.id, **WHO)
        await plane.clock.advance(2)
        assert list(plane.phases.values()).count(Phase.DRAINING) == 1
        back = await plane.plans.make_undo(first, **WHO)
        await finish(plane, back.id)
        assert plane.plans.runs.get(begun.id).state is RunState.CANCELLED
        assert {one.generation for one in plane.state.fleet.instances} == {1}
        assert plane.all_ready(3)


async def test_what_cannot_change_while_it_runs_is_refused(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        past = replace(plane.state.fleet.desired, name="another", revision=1)
        record = await plane.plans.make_undo(past, **WHO)
        assert [one.code for one in record.refused] == ["needs_restart"]
        assert record.after == plane.state.fleet.desired
