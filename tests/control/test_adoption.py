"""Our restart is not their restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pdctl.control.fleet_state import FleetState
from pdctl.domain.events import EventKind
from pdctl.domain.instance import Slot
from pdctl.domain.lifecycle import Phase, Reason
from tests.fakes.fleets import Plane, fleet, moved_to, reflagged, resized
from tests.fakes.machine import World


async def test_a_new_control_plane_adopts_and_serves_at_once(world: World) -> None:
    async with Plane(world, fleet(2, 1)) as old:
        await old.ready()
        await old.clock.advance(30)
    world.stall_first_s = 0.0
    handoffs = old.probe.handoffs
    async with Plane(world, fleet(2, 1), store=old.store) as new:
        took = await new.clock.until(new.all_ready, step_s=0.05)
        assert took <= 0.2
        assert len(world.launches) == 3
        assert new.probe.warmings == 0
        assert new.one("decode-0").reason is Reason.ADOPTED
        assert new.one("decode-0").generation == 1
        assert set(new.data_plane.table.pairs) == {
            ("prefill-0", "decode-0"),
            ("prefill-1", "decode-0"),
        }
        await new.clock.advance(5)
        assert new.probe.handoffs == 2, "pairs are probed anew behind the traffic"
        assert handoffs == 2
        assert all(pair.state == "ok" for pair in new.state.fleet.pairs)
        assert all(pair.message == "" for pair in new.state.fleet.pairs)


async def test_a_pair_that_fails_after_adoption_leaves_the_table(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
        await old.clock.advance(1)
    world.bad_pairs = {("prefill-0", "decode-0")}
    async with Plane(world, store=old.store) as new:
        await new.clock.until(new.all_ready)
        await new.clock.until(lambda: new.pair("prefill-0", "decode-0").state == "failing")
        assert new.data_plane.table.pairs == ()
        assert new.all_ready()
        assert new.pair("prefill-0", "decode-0").handoff_ms is None


async def test_without_memory_it_adopts_and_probes_first(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
    async with Plane(world) as new:
        await new.ready()
        assert len(world.launches) == 2
        assert new.story("decode-0") == ["unknown", "probing", "ready"]


async def test_a_loading_instance_is_adopted_while_it_loads(world: World) -> None:
    world.load_s = 100.0
    async with Plane(world, fleet(0, 1)) as old:
        await old.clock.advance(50)
        assert old.phases == {"decode-0": Phase.LOADING}
    async with Plane(world, fleet(0, 1), store=old.store) as new:
        await new.clock.advance(10)
        assert new.phases == {"decode-0": Phase.LOADING}
        await new.ready()
        assert len(world.launches) == 1
        assert new.probe.warmings == 1


async def test_tables_go_on_growing_over_restarts_however_quick(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
        for n in range(60):
            old.want(replace(old.spec, router=replace(old.spec.router, retries=n)))
            await old.clock.advance(0.1)
        last = old.data_plane.table.seq
    async with Plane(world, store=old.store) as new:
        await new.ready()
        assert new.data_plane.tables[0].seq > last


async def test_an_adopted_one_that_still_loads_is_not_waited_for_long(world: World) -> None:
    world.load_s = 100.0
    async with Plane(world, fleet(0, 1)) as old:
        await old.clock.advance(50)
    async with Plane(world, fleet(0, 0), store=old.store) as new:
        took = await new.clock.until(lambda: not world.alive)
        assert took <= 10


async def test_one_that_was_told_to_stop_goes_on_stopping(world: World) -> None:
    world.exit_s = 30.0
    async with Plane(world, fleet(1, 2)) as old:
        await old.ready()
        old.want(resized(old.spec, decode=1))
        await old.clock.until(lambda: Phase.STOPPING in old.phases.values())
        (going,) = [id_ for id_, phase in old.phases.items() if phase is Phase.STOPPING]
        await old.clock.advance(0.2)
    async with Plane(world, fleet(1, 1), store=old.store) as new:
        await new.clock.advance(5)
        assert new.story(going) == ["stopping"], "it still answers, and aborts what it is sent"
        assert new.one(going).reason is Reason.SCALE_DOWN
        assert going not in new.data_plane.accepting
        await new.clock.until(lambda: going not in new.phases)
        assert len(world.launches) == 3


async def test_a_stop_that_hung_over_a_restart_is_still_ended(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as old:
        await old.ready()
        world.of("decode-0").stuck = True
        await old.operations.restart_instance("decode-0", actor="ada", source="test")
        await old.clock.until(lambda: old.phases["decode-0"] is Phase.STOPPING)
        await old.clock.advance(0.2)
    async with Plane(world, fleet(0, 1), store=old.store) as new:
        await new.clock.until(lambda: new.one("decode-0").generation == 2, limit_s=120)
        assert new.rungs("decode-0") == ["kill"]


async def test_one_that_died_meanwhile_is_recorded_and_started_again(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
    world.crash("decode-0", "RuntimeError: out of memory")
    async with Plane(world, store=old.store) as new:
        await new.clock.settle()
        one = new.one("decode-0")
        assert one.phase is Phase.BACKOFF
        assert one.exit is not None
        assert one.exit.first_error == "RuntimeError: out of memory"
        await new.ready()
        assert new.one("decode-0").generation == 2
        assert new.one("prefill-0").generation == 1


async def test_other_flags_and_unknown_pools_are_drained_and_replaced(world: World) -> None:
    async with Plane(world, fleet(1, 1, both=1)) as old:
        await old.ready()
        before = {one.fingerprint for one in old.state.fleet.instances}
    wanted = reflagged(fleet(1, 1), max_num_seqs=8)
    async with Plane(world, wanted, store=old.store) as new:

        def replaced() -> bool:
            here = new.state.fleet.instances
            return sorted(one.pool for one in here) == ["decode", "prefill"] and not any(
                one.fingerprint in before for one in here
            )

        await new.clock.until(replaced, limit_s=120)
        await new.ready()
        assert new.rungs("both-0") == ["out_of_rotation", "terminate"]
        assert len(world.alive) == 2


async def test_a_size_that_shrank_meanwhile_is_brought_down(world: World) -> None:
    async with Plane(world, fleet(1, 3)) as old:
        await old.ready()
    async with Plane(world, fleet(1, 1), store=old.store) as new:
        await new.ready()
        assert set(new.phases) == {"prefill-0", "decode-0"}
        assert len(world.launches) == 4


async def test_nothing_starts_before_what_runs_could_be_read(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
    new = Plane(world, store=old.store)
    new.launcher.hang = True
    async with new:
        await new.clock.advance(60)
        assert len(world.launches) == 2
        assert not new.state.fleet.instances
        assert any("nothing starts" in e.data["message"] for e in new.events(EventKind.NOTICE))
        new.launcher.hang = False
        await new.ready()
        assert len(world.launches) == 2


async def test_a_second_copy_is_ended(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as old:
        await old.ready()
    first = world.of("decode-0")
    copy = replace(
        first.order,
        nonce="0123456789abcdef",
        generation=2,
        instance_id="other",
        slot=replace(first.order.slot, http_port=18030, side_channel_port=18150),
    )
    world.start(copy).order = replace(copy, instance_id="decode-0")
    async with Plane(world, fleet(0, 1), store=old.store) as new:
        await new.ready()
        assert len(world.alive) == 1
        assert new.one("decode-0").generation == 2
        assert "not the one in charge" in str(new.events(EventKind.STOP_RUNG)[0].data["message"])


async def test_it_adopts_although_the_store_cannot_be_read(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
    old.store.failing = True
    async with Plane(world, store=old.store) as new:
        await new.ready()
        assert len(world.launches) == 2
        notices = [e for e in new.events(EventKind.NOTICE) if "store refuses" in e.data["message"]]
        assert len(notices) == 1
        old.store.failing = False
        await new.clock.advance(6)
        assert {one.phase for one in old.store.instances} == {Phase.READY}


async def test_generations_go_on_after_everything_is_gone(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as old:
        await old.ready()
    for process in world.alive:
        world.end(process, None, 9)
        world.forgotten.append(process.order.nonce)
    async with Plane(world, fleet(0, 1), store=old.store) as new:
        await new.ready()
        assert new.one("decode-0").generation == 2


async def test_detach_leaves_everything_running(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        await plane.reconciler.detach()
        assert {one.phase for one in plane.store.instances} == {Phase.READY}
        await plane.clock.advance(60)
        assert len(world.alive) == 2


async def test_desired_of_the_state_is_what_counts(world: World) -> None:
    spec = fleet(1, 1)
    state = FleetState(spec)
    before = state.fleet
    state.set_desired(resized(spec, decode=2), seq=7)
    assert before.desired == spec
    assert state.fleet.seq == 7
    assert state.fleet.desired.shape == "1p2d"


async def test_an_engine_whose_record_is_lost_is_ended_and_started_once(world: World) -> None:
    async with Plane(world) as old:
        await old.ready()
    lost = world.of("decode-0")
    world.unrecorded.add(lost.order.nonce)
    async with Plane(world, store=old.store) as new:
        await new.ready()
        assert not lost.alive
        assert len(world.alive) == 2
        assert new.one("decode-0").generation == 2
        assert new.one("prefill-0").generation == 1
        (notice,) = new.events(EventKind.NOTICE, "decode-0")
        assert "record of its start is lost" in notice.data["message"]
        assert str(lost.pid) in notice.data["message"]


async def test_a_lost_engine_that_nobody_remembers_is_ended_as_well(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as old:
        await old.ready()
    lost = world.of("decode-0")
    world.unrecorded.add(lost.order.nonce)
    world.found_anyway.add(lost.order.nonce)
    async with Plane(world, fleet(0, 1)) as new:
        await new.ready()
        assert not lost.alive
        assert len(world.alive) == 1


async def test_a_lost_engine_that_cannot_be_killed_is_not_denied_at_the_end(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as old:
        await old.ready()
    lost = world.of("decode-0")
    lost.unkillable = True
    world.unrecorded.add(lost.order.nonce)
    async with Plane(world, fleet(0, 0), store=old.store) as new:
        await new.clock.advance(1)
        (notice,) = new.events(EventKind.NOTICE, "decode-0")
        assert "may still hold ports" in notice.data["message"]
        closing = asyncio.ensure_future(new.reconciler.shutdown())
        await new.clock.until(closing.done)
        (left,) = closing.result()
        assert left == f"processes {lost.pid} of decode-0, which SIGKILL could not end"


async def test_what_lost_its_record_meanwhile_is_ended_before_nothing_is_left(
    world: World,
) -> None:
    async with Plane(world, fleet(0, 1)) as plane:
        await plane.ready()
        stray = world.start(
            replace(
                world.of("decode-0").order, nonce="f" * 16, instance_id="other",
                slot=Slot(9, 18039, 18179),
            )
        )  # fmt: skip
        world.unrecorded.add("f" * 16)
        world.found_anyway.add("f" * 16)
        closing = asyncio.ensure_future(plane.reconciler.shutdown())
        await plane.clock.until(closing.done)
        assert closing.result() == ()
        assert not stray.alive


async def test_a_change_of_engines_goes_on_after_a_restart_and_never_pairs_old_with_new(
    world: World,
) -> None:
    spec = fleet(2, 2)
    wanted = moved_to(spec, "/new/python")
    async with Plane(world, spec) as old:
        await old.ready()
        old.want(wanted)
        await old.clock.until(lambda: old.phases.get("decode-2") is Phase.READY)
    async with Plane(world, wanted, store=old.store) as new:
        while not (new.all_ready(4) and len(world.launches) == 8):
            await new.clock.advance(0.5)
            compat = {one.id: one.compat for one in new.state.fleet.instances}
            table = new.data_plane.table
            assert all(compat[prefill] == compat[decode] for prefill, decode in table.pairs)
            assert table.pairs
            assert len([one for one in new.phases.values() if one is Phase.READY]) >= 4
        assert {pair.state for pair in new.state.fleet.pairs} == {"ok"}


async def test_records_of_an_older_pdctl_know_no_hash_and_are_adopted_all_the_same(
    world: World,
) -> None:
    async with Plane(world) as old:
        await old.ready()
        known = old.one("decode-0").compat
    for process in world.processes.values():
        process.order = replace(process.order, compat="")
    async with Plane(world, store=old.store) as new:
        await new.clock.until(new.all_ready)
        assert {one.compat for one in new.state.fleet.instances} == {known}
        assert new.data_plane.table.pairs == (("prefill-0", "decode-0"),)
