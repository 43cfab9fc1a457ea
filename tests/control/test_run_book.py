"""Applied plans outlive their control plane: taken up again, or ended with words that say why."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pdctl.control.run_book import take_up
from pdctl.control.runs import RESUMED
from pdctl.domain.change import Change, parse
from pdctl.domain.errors import ConflictError
from pdctl.domain.events import EventKind
from pdctl.domain.rehearsal import rehearse
from pdctl.domain.runs import RunRecord, RunState
from tests.fakes.asking import Who
from tests.fakes.fleets import Plane, fleet, reflagged
from tests.fakes.machine import World

WHO: Who = {"actor": "ada", "source": "cli"}


async def begun(world: World) -> tuple[Plane, RunRecord]:
    """A control plane that died right after a resize was answered."""
    async with Plane(world) as plane:
        await plane.ready()
        record = await plane.plans.make(parse(["decode=2"]), **WHO)
        run = await plane.plans.apply(record.id, **WHO)
    return plane, run


async def test_it_is_stored_with_its_fleet_and_taken_up_again(world: World) -> None:
    old, run = await begun(world)
    assert old.store.ran[run.id].state is RunState.RUNNING
    new = Plane(world, old.state.fleet.desired, old.store)
    await take_up(new.state, new.plans.runs, new.store)
    async with new:
        assert new.plans.runs.get(run.id).message == RESUMED
        await new.clock.until(lambda: new.plans.runs.get(run.id).state is not RunState.RUNNING)
        ended = new.plans.runs.get(run.id)
        assert (ended.state, ended.message, ended.resumed) == (RunState.DONE, RESUMED, 1)
        assert len(ended.done) == len(ended.steps)
        outcomes = [event.data["outcome"] for event in new.events(EventKind.OPERATION)]
        assert outcomes == ["resumed", "done"]
        await new.plans.runs.save()
    assert new.store.ran[run.id].state is RunState.DONE


async def test_what_has_come_about_meanwhile_is_done(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
        record = await old.plans.make(parse(["decode=2"]), **WHO)
        run = await old.plans.apply(record.id, **WHO)
        await old.clock.until(lambda: old.plans.runs.get(run.id).state is RunState.DONE)
    assert old.store.ran[run.id].state is RunState.RUNNING, "it died before it could note the end"
    new = Plane(world, old.state.fleet.desired, old.store)
    await take_up(new.state, new.plans.runs, new.store)
    assert new.plans.runs.get(run.id).state is RunState.RUNNING, "nobody has looked yet"
    async with new:
        await new.clock.until(lambda: new.plans.runs.get(run.id).state is RunState.DONE)
        assert len(new.plans.runs.get(run.id).done) == len(run.steps)


async def test_what_was_not_foreseen_to_its_end_is_counted_in_instances_and_ends_with_the_fleet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.control.plans.rehearse", partial(rehearse, budget=100))
    async with Plane(world, fleet(2, 2)) as plane:
        await plane.ready()
        wanted = reflagged(plane.state.fleet.desired, max_num_seqs=9)
        record = await plane.plans.make(Change(fleet=wanted), **WHO)
        assert not record.refused
        run = await plane.plans.apply(record.id, **WHO)
        assert run.rest is not None
        assert (run.rest.total, run.in_place) == (4, 0)

        def now() -> RunRecord:
            return plane.plans.runs.get(run.id)

        await plane.clock.until(lambda: len(now().done) == len(run.steps))
        assert now().state is RunState.RUNNING
        assert now().in_place < 4
        await plane.clock.until(lambda: now().state is not RunState.RUNNING)
        assert (now().state, now().in_place) == (RunState.DONE, 4)


async def test_a_fleet_file_that_won_ends_it_and_says_so(world: World) -> None:
    old, run = await begun(world)
    file = replace(old.state.fleet.desired, revision=run.revision + 1)
    await old.store.save_revision(file, actor="serve", reason="the fleet file changed", at=0)
    new = Plane(world, file, old.store)
    await take_up(new.state, new.plans.runs, new.store)
    ended = new.plans.runs.get(run.id)
    assert ended.state is RunState.CANCELLED
    assert ended.message == f"revision {file.revision} took its place (the fleet file changed)"


async def test_it_can_be_cancelled_after_the_restart(world: World) -> None:
    old, run = await begun(world)
    first = fleet()
    old.store.saved.insert(0, replace(old.store.saved[0], fleet=first))
    new = Plane(world, old.state.fleet.desired, old.store)
    await take_up(new.state, new.plans.runs, new.store)
    async with new:
        ended = await new.plans.cancel(run.id, **WHO)
        assert ended.state is RunState.CANCELLED
        assert new.state.fleet.desired.pools == first.pools
        assert new.store.ran[run.id].state is RunState.CANCELLED
        with pytest.raises(ConflictError, match="cannot be cancelled"):
            await new.plans.cancel(run.id, **WHO)


async def test_a_store_that_fails_is_tried_again(world: World) -> None:
    old, run = await begun(world)
    new = Plane(world, old.state.fleet.desired, old.store)
    await take_up(new.state, new.plans.runs, new.store)
    new.store.failing = True
    await new.plans.runs.save()
    new.store.failing = False
    await new.plans.runs.save()
    assert new.store.ran[run.id].resumed == 1


async def test_pages_join_memory_and_store(world: World) -> None:
    old, run = await begun(world)
    older = replace(run, id="op-older", revision=1, state=RunState.DONE)
    await old.store.save_runs([older])
    book = Plane(world, old.state.fleet.desired, old.store).plans.runs
    assert [one.id for one in await book.page(None, 10)] == [run.id, "op-older"]
    assert [one.id for one in await book.page(run.revision, 10)] == ["op-older"]
    assert (await book.find("op-older")).state is RunState.DONE


@pytest.mark.parametrize("verb", ["restart", "clear"])
async def test_what_was_promised_of_an_instance_survives(world: World, verb: str) -> None:
    if verb == "clear":
        world.broken["decode-0"] = "vllm: error: unrecognized arguments: --nope"
    async with Plane(world) as old:
        if verb == "clear":
            await old.clock.until(lambda: old.phases.get("decode-0") == "failed")
            await old.operations.clear_failure("decode-0", **WHO)
        else:
            await old.ready()
            await old.operations.restart_instance("decode-0", **WHO)
        promised = old.one("decode-0").generation
        assert [fact.data["verb"] for fact in old.store.facts if "verb" in fact.data] == [verb]
    world.broken.clear()
    new = Plane(world, old.spec, old.store)
    await take_up(new.state, new.plans.runs, new.store)
    async with new:
        await new.ready()
        await new.clock.until(lambda: new.one("decode-0").generation > promised)
        await new.ready()


async def test_what_is_being_cancelled_does_not_end_as_done_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        record = await plane.plans.make(parse(["decode=2"]), **WHO)
        run = await plane.plans.apply(record.id, **WHO)
        store = plane.store.save_revision

        async def slowly(*args: Any, **kwargs: Any) -> None:
            await plane.clock.until(lambda: plane.all_ready(3))
            await store(*args, **kwargs)

        monkeypatch.setattr(plane.store, "save_revision", slowly)
        await plane.plans.cancel(run.id, **WHO)
        told = [event.data for event in plane.events(EventKind.OPERATION)]
        assert [one["outcome"] for one in told if one["verb"] == "operation"] == ["cancelled"]
