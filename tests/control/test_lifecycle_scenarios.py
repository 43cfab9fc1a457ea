"""What the fleet goes through: starts, crashes, hangs, and how it comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from pdctl.domain.events import EventKind
from pdctl.domain.instance import ExitInfo
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.retry import MAX_FAILURES
from pdctl.domain.topology import Mode
from tests.fakes.fleets import Plane, fleet, reflagged
from tests.fakes.machine import World


async def test_cold_start_goes_through_every_phase_in_order(world: World) -> None:
    async with Plane(world) as plane:
        took = await plane.ready()
        path = ["pending", "starting", "loading", "warming", "probing", "ready"]
        assert plane.story("prefill-0") == path
        assert plane.story("decode-0") == path
        assert plane.pair("prefill-0", "decode-0").state == "ok"
        assert plane.pair("prefill-0", "decode-0").handoff_ms == pytest.approx(200)
        assert plane.data_plane.accepting == {"prefill-0", "decode-0"}
        assert plane.data_plane.table.pairs == (("prefill-0", "decode-0"),)
        assert 20 <= took < 30
        assert plane.probe.warmings == 2


async def test_nobody_is_offered_before_its_pair_was_tried(world: World) -> None:
    world.stall_first_s = 11.0
    async with Plane(world) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.PROBING)
        await plane.clock.advance(5)
        assert plane.phases["decode-0"] is Phase.PROBING
        assert plane.pair("prefill-0", "decode-0").state == "probing"
        assert all("decode-0" not in {t.id for t in x.targets} for x in plane.data_plane.tables)
        await plane.ready()
        assert plane.pair("prefill-0", "decode-0").handoff_ms == pytest.approx(11_000)


async def test_one_alone_in_its_role_serves_whole_requests_and_says_so(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.READY)
        assert plane.data_plane.accepting == {"decode-0"}
        await plane.clock.advance(1)
        assert any("no live prefill" in note for note in plane.state.fleet.notes)


async def test_a_fleet_at_rest_only_scrapes(world: World) -> None:
    async with Plane(world, fleet(2, 2)) as plane:
        await plane.ready()
        await plane.clock.advance(10)
        seq, saves = plane.feed.seq, plane.probe.looks
        scrapes, tables = plane.probe.scrapes, len(plane.data_plane.tables)
        await plane.clock.advance(60)
        assert plane.feed.seq == seq
        assert len(plane.data_plane.tables) == tables
        assert plane.probe.scrapes - scrapes == pytest.approx(4 * 30, abs=8)
        assert plane.probe.looks - saves == pytest.approx(4 * 6, abs=4)
        assert plane.probe.handoffs == 4


async def test_a_crash_is_named_waited_out_and_healed(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        world.crash("decode-0", "RuntimeError: CUDA error: an illegal memory access")
        await plane.clock.until(lambda: plane.phases["decode-0"] is not Phase.READY, step_s=0.05)
        await plane.clock.settle()
        one = plane.one("decode-0")
        assert one.phase is Phase.BACKOFF
        assert one.reason is Reason.EXITED
        assert one.message == (
            "killed by signal 9 (SIGKILL); the first error in its log: "
            "RuntimeError: CUDA error: an illegal memory access"
        )
        assert one.exit is not None
        assert one.exit.signal == 9
        assert one.failures == 1
        assert plane.data_plane.accepting == {"prefill-0"}
        assert plane.data_plane.table.pairs == ()
        await plane.ready()
        back = plane.one("decode-0")
        assert back.generation == 2
        assert back.slot.index == one.slot.index
        assert back.failures == 1
        assert plane.pair("prefill-0", "decode-0").generations == (1, 2)
        await plane.clock.advance(601)
        assert plane.one("decode-0").failures == 0
        assert plane.one("decode-0").first_failure is None


async def test_a_configuration_error_is_not_tried_again(world: World) -> None:
    said = "api_server.py: error: unrecognized arguments: --kv-transfer-confg"
    world.broken["decode-0"] = said
    async with Plane(world) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.FAILED)
        one = plane.one("decode-0")
        assert one.reason is Reason.CONFIG_ERROR
        assert said in one.message
        await plane.clock.advance(600)
        assert sum(order.instance_id == "decode-0" for order in world.launches) == 1
        assert plane.phases["prefill-0"] is Phase.READY
        assert any("decode-0 is given up" in note for note in plane.state.fleet.notes)
        del world.broken["decode-0"]
        await plane.operations.clear_failure("decode-0", actor="ada", source="test")
        await plane.ready()
        assert plane.one("decode-0").failures == 0


async def test_backoff_grows_and_gives_up_loudly_with_the_first_failure_pinned(
    world: World,
) -> None:
    world.broken["decode-0"] = "RuntimeError: first"
    async with Plane(world) as plane:
        await plane.clock.until(lambda: len(world.launches) == 3)
        world.broken["decode-0"] = "RuntimeError: later"
        await plane.clock.until(lambda: plane.phases["decode-0"] is Phase.FAILED)
        one = plane.one("decode-0")
        assert one.failures == 6
        assert one.first_failure is not None
        assert one.first_failure.first_error == "RuntimeError: first"
        assert "failed 6 times in a row" in one.message
        assert "RuntimeError: later" in one.message
        assert sum(order.instance_id == "decode-0" for order in world.launches) == 6
        notices = [e.data["message"] for e in plane.events(EventKind.NOTICE)]
        assert any("decode-0 is given up" in str(notice) for notice in notices)


async def test_two_crashes_at_once_heal_without_a_second_copy(world: World) -> None:
    async with Plane(world, fleet(2, 2)) as plane:
        await plane.ready()
        world.crash("decode-0")
        world.crash("prefill-1")
        await plane.clock.advance(0.2)
        assert plane.phases["decode-0"] is Phase.BACKOFF
        assert plane.phases["prefill-1"] is Phase.BACKOFF
        await plane.ready()
        assert len(world.launches) == 6
        assert len(world.alive) == 4
        assert {pair.state for pair in plane.state.fleet.pairs} == {"ok"}


async def test_a_crash_during_a_probe_frees_the_prefill_for_others(world: World) -> None:
    world.stall_first_s = 30.0
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.clock.until(
            lambda: any(pair.state == "probing" for pair in plane.state.fleet.pairs)
        )
        probed = next(p for p in plane.state.fleet.pairs if p.state == "probing")
        world.stall_first_s = 0.0
        world.crash(probed.decode)
        await plane.clock.advance(2)
        assert plane.pair(probed.prefill, probed.decode).state == "untried"
        await plane.ready()
        assert world.most_probes == 1


async def test_one_probe_at_a_time_on_a_prefill_and_many_over_the_fleet(world: World) -> None:
    world.stall_first_s = 11.0
    async with Plane(world, fleet(3, 3)) as plane:
        took = await plane.ready()
        assert world.most_probes == 1
        assert took < 20 + 3 * 11 + 8
        assert plane.probe.handoffs == 9


async def test_a_failing_pair_condemns_nobody_and_is_tried_again(world: World) -> None:
    world.bad_pairs = {("prefill-0", "decode-1")}
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        pair = plane.pair("prefill-0", "decode-1")
        assert pair.state == "failing"
        assert "no transfer was seen" in pair.message
        assert plane.data_plane.table.pairs == (("prefill-0", "decode-0"),)
        assert plane.data_plane.accepting == {"prefill-0", "decode-0", "decode-1"}
        world.bad_pairs = set()
        await plane.clock.until(lambda: plane.pair("prefill-0", "decode-1").state == "ok")
        assert ("prefill-0", "decode-1") in plane.data_plane.table.pairs


async def test_a_suspicion_is_looked_at_at_once_and_three_refusals_are_death(
    world: World,
) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        world.of("decode-0").deaf = True
        plane.data_plane.suspect("decode-0")
        took = await plane.clock.until(lambda: plane.phases["decode-0"] is not Phase.READY)
        assert took < 5
        await plane.clock.settle()
        await plane.clock.advance(0.5)
        one = plane.one("decode-0")
        assert one.phase is Phase.BACKOFF
        assert one.reason is Reason.UNHEALTHY
        assert one.message == "refused 3 looks in a row"
        assert plane.rungs("decode-0") == ["kill"]
        await plane.ready()


async def test_what_had_ended_before_it_was_given_up_says_how_it_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        process = world.of("decode-0")
        process.deaf, died = True, plane.clock.now()

        async def too_late(nonce: str) -> None:
            world.end(process, None, 9)
            process.exit = ExitInfo(None, 9, died)

        monkeypatch.setattr(plane.launcher, "kill", too_late)
        await plane.clock.advance(0.1)
        plane.data_plane.suspect("decode-0")
        await plane.clock.until(lambda: plane.phases["decode-0"] is Phase.BACKOFF)
        assert plane.one("decode-0").message == "killed by signal 9 (SIGKILL)"
        assert plane.one("decode-0").reason is Reason.EXITED


async def test_a_launch_that_breaks_unforeseen_is_a_failure_like_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def burst(order: object) -> None:
        raise ValueError("embedded null byte")

    plane = Plane(world, fleet(0, 1))
    monkeypatch.setattr(plane.launcher, "launch", burst)
    async with plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.FAILED)
        one = plane.one("decode-0")
        assert one.failures == MAX_FAILURES
        assert "embedded null byte" in one.message
        assert one.generation == MAX_FAILURES


async def test_a_command_that_cannot_be_built_is_given_up_whatever_broke(world: World) -> None:
    plane = Plane(world, reflagged(fleet(0, 1), unspeakable=1))

    def build(*_: object) -> NoReturn:
        raise KeyError("unspeakable")

    plane.reconciler._launching._command = build
    async with plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.FAILED)
        assert plane.one("decode-0").reason is Reason.CONFIG_ERROR
        assert "unspeakable" in plane.one("decode-0").message


async def test_what_outlives_a_kill_is_said_aloud(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        process = world.of("decode-0")
        world.crash("decode-0")
        assert process.exit is not None
        process.exit = replace(process.exit, survivors=(4242, 4243))
        await plane.clock.advance(0.5)
        assert plane.one("decode-0").message.endswith("(processes 4242, 4243 could not be killed)")
        assert plane.one("decode-0").exit == process.exit
        (notice,) = plane.events(EventKind.NOTICE, "decode-0")
        assert notice.data["level"] == "error"
        assert "SIGKILL could not end its processes 4242, 4243" in notice.data["message"]


async def test_slow_is_not_dead(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        world.of("decode-0").slow = True
        await plane.clock.advance(300)
        assert plane.phases["decode-0"] is Phase.READY
        assert plane.one("decode-0").generation == 1


async def test_an_engine_that_has_stopped_stepping_is_killed(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        await plane.clock.advance(5)
        world.of("decode-0").running = 2
        await plane.clock.advance(80)
        assert plane.phases["decode-0"] is Phase.READY
        await plane.clock.until(lambda: plane.phases["decode-0"] is not Phase.READY)
        assert "made no iteration" in plane.one("decode-0").message
        await plane.ready()
        assert plane.one("decode-0").generation == 2


async def test_one_that_hung_while_it_was_idle_is_found_by_a_question(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        world.of("decode-0").wedged = True
        plane.data_plane.open("decode-0", 1)
        await plane.clock.advance(90)
        assert plane.phases["decode-0"] is Phase.READY
        took = await plane.clock.until(lambda: plane.phases["decode-0"] is not Phase.READY)
        assert took <= 45
        assert "made no iteration" in plane.one("decode-0").message
        plane.data_plane.open("decode-0", 0)
        await plane.ready()
        assert plane.one("decode-0").generation == 2


async def test_streams_that_their_clients_do_not_read_condemn_nobody(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        plane.data_plane.open("decode-0", 1)
        warmings = plane.probe.warmings
        await plane.clock.advance(600)
        assert plane.one("decode-0").generation == 1
        assert plane.phases["decode-0"] is Phase.READY
        assert 600 / 40 <= plane.probe.warmings - warmings <= 600 / 30


async def test_a_start_without_progress_is_given_up(world: World) -> None:
    world.load_s = 10_000.0
    async with Plane(world, fleet(0, 1, start_timeout_s=60)) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.BACKOFF)
        one = plane.one("decode-0")
        assert one.reason is Reason.START_TIMEOUT
        assert "no progress for 60 s" in one.message


async def test_a_slow_start_with_progress_goes_on(world: World) -> None:
    world.load_s = 400.0
    async with Plane(world, fleet(0, 1, start_timeout_s=100)) as plane:
        await plane.ready()
        assert plane.one("decode-0").generation == 1
        stages = [e.data["message"] for e in plane.events(EventKind.INSTANCE_CHANGED, "decode-0")]
        assert "loading weights, 50 %" in stages


async def test_a_warm_up_that_fails_is_repeated(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as plane:
        plane.probe.cold = "status 500"
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.WARMING)
        await plane.clock.advance(9)
        assert plane.phases["decode-0"] is Phase.WARMING
        assert "status 500" in plane.one("decode-0").message
        assert 3 <= plane.probe.warmings <= 5
        plane.probe.cold = ""
        await plane.ready()


async def test_a_process_that_cannot_be_started_backs_off(world: World) -> None:
    async with Plane(world, fleet(0, 1)) as plane:
        plane.launcher.refuse = "fork failed: no memory"
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.BACKOFF)
        assert "fork failed" in plane.one("decode-0").message
        plane.launcher.refuse = ""
        await plane.ready()


async def test_mode_is_switched_without_touching_an_instance(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        await plane.operations.set_mode(Mode.CHUNKED, actor="ada", source="test")
        await plane.clock.settle()
        assert [table.mode for table in plane.data_plane.tables][-1:] == [Mode.CHUNKED]
        assert plane.data_plane.table.pairs == (("prefill-0", "decode-0"),)
        await plane.operations.set_mode(Mode.PD, actor="ada", source="test")
        await plane.clock.settle()
        assert [table.mode for table in plane.data_plane.tables][-2:] == [Mode.CHUNKED, Mode.PD]
        assert len(world.launches) == 2
        assert plane.all_ready()
