"""Drains, the stop ladder, shrinking and growing, and the end of the whole fleet."""

from __future__ import annotations

import pytest

from pdctl import tasks
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode
from tests.fakes.fleets import Plane, fleet, in_place, reflagged, resized
from tests.fakes.machine import World


async def test_a_shrink_drains_the_least_loaded_and_keeps_its_promise(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        plane.data_plane.open("decode-0", 1)
        plane.data_plane.open("decode-1", 3)
        await plane.clock.settle()
        plane.want(resized(plane.spec, decode=1))
        await plane.clock.advance(0.2)
        assert plane.phases["decode-0"] is Phase.DRAINING
        assert plane.one("decode-0").reason is Reason.SCALE_DOWN
        assert plane.data_plane.accepting == {"prefill-0", "decode-1"}
        await plane.clock.advance(60)
        assert plane.phases["decode-0"] is Phase.DRAINING
        assert world.of("decode-0").terms == 0
        plane.data_plane.open("decode-0", 0)
        await plane.clock.advance(0.2)
        assert world.of("decode-0").terms == 1
        await plane.clock.until(lambda: plane.all_ready(2))
        assert plane.rungs("decode-0") == ["out_of_rotation", "terminate"]
        assert plane.story("decode-0")[-4:] == ["draining", "stopping", "stopped", "None"]


async def test_a_drain_ends_at_its_deadline(world: World) -> None:
    async with Plane(world, fleet(1, 2, drain_timeout_s=30)) as plane:
        await plane.ready()
        for id_ in ("decode-0", "decode-1"):
            plane.data_plane.open(id_, 2)
        await plane.clock.settle()
        plane.want(resized(plane.spec, decode=1))
        await plane.clock.advance(29)
        assert Phase.DRAINING in plane.phases.values()
        await plane.clock.until(lambda: plane.all_ready(2), limit_s=5)
        said = [e.data["message"] for e in plane.events(EventKind.STOP_RUNG)]
        assert any("deadline reached, 2 streams open" in message for message in said)


async def test_a_drain_waits_until_the_router_has_taken_the_table(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        plane.data_plane.refuse = True
        plane.want(resized(plane.spec, decode=1))
        await plane.clock.advance(20)
        (draining,) = [id_ for id_, phase in plane.phases.items() if phase is Phase.DRAINING]
        assert world.of(draining).terms == 0
        plane.data_plane.refuse = False
        await plane.clock.until(lambda: plane.all_ready(2), limit_s=10)


async def test_a_prefill_waits_for_leases_that_nobody_pulled(world: World) -> None:
    async with Plane(world, fleet(2, 1)) as plane:
        await plane.ready()
        await plane.clock.advance(30)
        for id_ in ("prefill-0", "prefill-1"):
            plane.data_plane.open(id_, 1)
        await plane.clock.settle()
        plane.want(resized(plane.spec, prefill=1))
        await plane.clock.advance(1)
        (gone,) = [id_ for id_, phase in plane.phases.items() if phase is Phase.DRAINING]
        plane.data_plane.open(gone, 0)
        await plane.clock.advance(8)
        assert plane.phases[gone] is Phase.DRAINING
        took = await plane.clock.until(lambda: plane.phases.get(gone) is not Phase.DRAINING)
        assert 1 <= took <= 4


async def test_an_idle_prefill_need_not_wait_for_a_lease(world: World) -> None:
    async with Plane(world, fleet(2, 1)) as plane:
        await plane.ready()
        await plane.clock.advance(60)
        plane.want(resized(plane.spec, prefill=1))
        took = await plane.clock.until(lambda: plane.all_ready(2))
        assert took <= 5


async def test_a_shrink_taken_back_in_time_costs_nothing(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        for id_ in ("decode-0", "decode-1"):
            plane.data_plane.open(id_, 1)
        await plane.clock.settle()
        plane.want(resized(plane.spec, decode=1))
        await plane.clock.advance(5)
        assert not plane.all_ready(3)
        plane.want(plane.spec)
        await plane.clock.advance(1)
        assert plane.all_ready(3)
        assert len(world.launches) == 3
        assert len(plane.data_plane.accepting) == 3


async def test_growing_starts_only_what_is_missing(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        plane.want(resized(plane.spec, prefill=2, decode=3))
        await plane.ready()
        assert len(world.launches) == 5
        assert set(plane.phases) == {"prefill-0", "prefill-1", "decode-0", "decode-1", "decode-2"}
        assert len(plane.state.fleet.pairs) == 6


async def test_no_free_core_is_said_and_taken_as_soon_as_it_is_free(world: World) -> None:
    async with Plane(world, fleet(1, 1, cores=("0", "1"))) as plane:
        await plane.ready()
        plane.want(resized(plane.spec, prefill=2))
        await plane.clock.advance(1)
        (note,) = [n for n in plane.state.fleet.notes if n.startswith("prefill wants 2")]
        assert "none of its 2 cores is free" in note
        assert "0: prefill-0" in note
        plane.want(resized(plane.spec, prefill=2, decode=0))
        await plane.clock.until(lambda: set(plane.phases) == {"prefill-0", "prefill-1"})


async def test_moving_the_last_of_a_role_needs_the_other_first(world: World) -> None:
    async with Plane(world, fleet(1, 1, both=1)) as plane:
        await plane.ready()
        world.load_s = 50.0
        world.crash("both-0")
        await plane.clock.advance(0.2)
        plane.want(resized(plane.spec, prefill=0))
        await plane.clock.until(lambda: plane.phases["both-0"] is Phase.LOADING)
        assert plane.phases["prefill-0"] is Phase.READY
        assert any(
            note == "prefill-0 stays until both-0 is ready: it is the last prefill instance"
            for note in plane.state.fleet.notes
        )
        await plane.clock.until(lambda: "prefill-0" not in plane.phases)
        assert plane.phases["both-0"] is Phase.READY


async def test_new_flags_roll_one_at_a_time(world: World) -> None:
    async with Plane(world, fleet(2, 2)) as plane:
        await plane.ready()
        fewest, most = 4, 4
        plane.want(reflagged(plane.spec, max_num_seqs=8))
        while not (plane.all_ready(4) and len(world.launches) == 8):
            await plane.clock.advance(0.5)
            ready = [one for one in plane.state.fleet.instances if one.phase is Phase.READY]
            fewest = min(fewest, len(ready))
            most = max(most, len(plane.state.fleet.instances))
        assert (fewest, most) == (4, 6)


async def test_without_a_surge_new_flags_roll_one_at_a_time_in_place(world: World) -> None:
    async with Plane(world, in_place(fleet(2, 2))) as plane:
        await plane.ready()
        fewest = 4
        plane.want(reflagged(plane.spec, max_num_seqs=8))
        while not (plane.all_ready(4) and len(world.launches) == 8):
            await plane.clock.advance(0.5)
            ready = [one for one in plane.state.fleet.instances if one.phase is Phase.READY]
            fewest = min(fewest, len(ready))
            assert {one.role for one in ready} == {"prefill", "decode"}
        assert fewest == 2
        assert all(one.generation == 2 for one in plane.state.fleet.instances)


async def test_new_flags_of_single_instances_start_the_new_one_first(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        plane.want(reflagged(plane.spec, max_num_seqs=8))
        while not (plane.all_ready(2) and len(world.launches) == 4):
            await plane.clock.advance(0.5)
            ready = [one for one in plane.state.fleet.instances if one.phase is Phase.READY]
            assert {one.role for one in ready} == {"prefill", "decode"}
        assert set(plane.phases) == {"prefill-1", "decode-1"}


async def test_new_flags_without_room_go_down_first_and_say_so(world: World) -> None:
    async with Plane(world, fleet(1, 1, cores=("0", "1"))) as plane:
        await plane.ready()
        plane.want(reflagged(plane.spec, max_num_seqs=8))
        await plane.clock.advance(0.1)
        said = [e.data["message"] for e in plane.events(EventKind.STOP_RUNG, "prefill-0")]
        assert "it goes first, because nothing is free" in said[0]
        assert any("decode-0 stays until prefill-0 is ready" in n for n in plane.state.fleet.notes)
        while not (plane.all_ready(2) and len(world.launches) == 4):
            await plane.clock.advance(0.5)
            assert Phase.READY in plane.phases.values(), "one at a time, so that one serves whole"


async def test_a_restart_asked_for_is_a_drain_and_a_new_generation(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        await plane.operations.restart_instance("decode-0", actor="ada", source="test")
        await plane.clock.advance(0.5)
        assert plane.one("decode-0").reason is Reason.OPERATOR
        await plane.ready()
        assert plane.one("decode-0").generation == 2
        assert set(plane.phases) == {"prefill-0", "decode-0"}
        await plane.clock.advance(120)
        assert plane.one("decode-0").generation == 2


async def test_shutdown_takes_every_rung_and_leaves_nothing(world: World) -> None:
    async with Plane(world, fleet(2, 2)) as plane:
        await plane.ready()
        plane.data_plane.open("decode-0", 1)
        world.of("decode-1").stuck = True
        await plane.clock.settle()
        said: list[str] = []
        task = tasks.spawn(plane.reconciler.shutdown(said.append), name="shutdown")
        await plane.clock.advance(2.5)
        assert "decode-0 draining (1 streams)" in said[-1]
        took = await plane.clock.until(task.done)
        assert took < 30
        assert not world.alive
        assert not plane.state.fleet.instances
        assert plane.rungs("decode-0") == ["out_of_rotation", "terminate"]
        assert plane.rungs("decode-1") == ["out_of_rotation", "terminate", "kill"]
        assert plane.store.instances == []
        assert len(world.launches) == 4


async def test_force_ends_a_shutdown_at_once(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        for id_ in ("decode-0", "prefill-0"):
            plane.data_plane.open(id_, 1)
        world.of("prefill-0").stuck = True
        await plane.clock.settle()
        task = tasks.spawn(plane.reconciler.shutdown(grace_s=60), name="shutdown")
        await plane.clock.advance(2)
        assert len(world.alive) == 2
        plane.reconciler.force()
        await plane.clock.until(task.done, limit_s=2)
        assert not world.alive


async def test_shutdown_while_loading_and_failing(world: World) -> None:
    world.broken["prefill-0"] = "RuntimeError: no"
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.clock.advance(8)
        task = tasks.spawn(plane.reconciler.shutdown(), name="shutdown")
        await plane.clock.until(task.done, limit_s=20)
        assert not world.alive


async def test_a_sigterm_lost_while_loading_is_followed_by_a_kill_soon(world: World) -> None:
    world.load_s = 100.0
    async with Plane(world, fleet(0, 1)) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.LOADING)
        plane.want(resized(plane.spec, decode=0))
        took = await plane.clock.until(lambda: not plane.phases)
        assert plane.rungs("decode-0") == ["terminate", "kill"]
        assert took <= 8
        assert not world.alive


async def test_shutdown_works_after_the_loop_was_cancelled(world: World) -> None:
    plane = Plane(world)
    async with plane:
        await plane.ready()
    task = tasks.spawn(plane.reconciler.shutdown(), name="shutdown")
    await plane.clock.until(task.done, limit_s=40)
    assert not world.alive


@pytest.mark.parametrize("mode", list(Mode))
async def test_zero_of_everything_is_a_fleet_too(world: World, mode: Mode) -> None:
    async with Plane(world, fleet(1, 1, mode=mode)) as plane:
        await plane.ready()
        plane.want(resized(plane.spec, prefill=0, decode=0))
        await plane.clock.until(lambda: not plane.phases)
        assert not world.alive
        assert plane.data_plane.accepting == set()
