"""An engine that lives and answers nothing: passed over soon, back at its word, restarted late."""

from __future__ import annotations

from random import Random

import pytest

from pdctl.domain.handoff import Path
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.routing.facts import RequestFacts
from pdctl.routing.policies.round_robin import RoundRobin
from pdctl.routing.router import Route, board_of, decide
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World


async def test_a_frozen_engine_is_passed_over_within_seconds_and_is_back_at_its_word(
    world: World,
) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        assert plane.data_plane.accepting == {"prefill-0", "decode-0", "decode-1"}
        world.of("decode-0").slow = True
        took = await plane.clock.until(lambda: "decode-0" not in plane.data_plane.accepting)
        assert took <= 10
        one = plane.one("decode-0")
        assert one.phase is Phase.READY
        assert one.message.startswith("does not answer since ")
        assert one.message.endswith(" UTC")
        assert plane.data_plane.table.target("decode-0") is not None, "its streams go on"
        assert any("decode-0 does not answer" in note for note in plane.state.fleet.notes)
        world.of("decode-0").slow = False
        took = await plane.clock.until(lambda: "decode-0" in plane.data_plane.accepting)
        assert took <= 3
        assert plane.one("decode-0").message == ""
        assert plane.one("decode-0").generation == 1
        assert plane.rungs("decode-0") == []


@pytest.mark.parametrize(
    ("silent", "served_by", "reason"),
    [("decode-0", "prefill-0", "no_decode"), ("prefill-0", "decode-0", "no_prefill")],
)
async def test_the_last_of_its_role_leaves_requests_to_whoever_answers(
    world: World, silent: str, served_by: str, reason: str
) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        world.of(silent).slow = True
        await plane.clock.until(lambda: plane.data_plane.accepting == {served_by})
        assert any(
            "others answer, so it gets no new requests" in note for note in plane.state.fleet.notes
        )
        policy = RoundRobin()
        board = board_of(plane.data_plane.table, policy, policy)
        route = decide(RequestFacts("/v1/completions"), board, {}, Random(7))
        assert isinstance(route, Route)
        assert (route.path, route.path_reason) == (Path.AGGREGATED, reason)
        assert route.decode.id == served_by


async def test_while_nobody_answers_all_go_on_being_tried(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        world.of("prefill-0").slow = True
        world.of("decode-0").slow = world.of("decode-1").slow = True
        await plane.clock.advance(30)
        assert plane.data_plane.accepting == {"prefill-0", "decode-0", "decode-1"}
        assert plane.one("prefill-0").message.startswith("does not answer since ")
        assert any("requests still go to it" in note for note in plane.state.fleet.notes)


async def test_work_that_hangs_on_a_silent_engine_is_cut_loose_in_the_end(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        plane.data_plane.open("decode-0", 3)
        await plane.clock.advance(1)
        world.of("decode-0").slow = True
        await plane.clock.advance(100)
        assert plane.one("decode-0").phase is Phase.READY
        await plane.clock.until(lambda: plane.phases["decode-0"] is not Phase.READY)
        await plane.clock.until(lambda: plane.phases["decode-0"] is Phase.BACKOFF)
        one = plane.one("decode-0")
        assert one.reason is Reason.UNHEALTHY
        assert "has not answered anything for 120 s, with 3 streams open on it" in one.message
        assert plane.rungs("decode-0") == ["kill"]
        await plane.ready()
        assert plane.one("decode-0").generation == 2


async def test_one_that_answers_late_is_passed_over_and_never_killed(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        plane.data_plane.open("decode-0", 1)
        world.of("decode-0").lag_s = 20.0
        await plane.clock.advance(400)
        assert plane.one("decode-0").phase is Phase.READY
        assert plane.one("decode-0").generation == 1
        assert "decode-0" not in plane.data_plane.accepting
        world.of("decode-0").lag_s = 0.5
        await plane.clock.until(lambda: "decode-0" in plane.data_plane.accepting, limit_s=30)


async def test_a_silent_one_counts_for_nobody_when_another_is_to_go(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        world.of("decode-0").slow = True
        await plane.clock.until(lambda: "decode-0" not in plane.data_plane.accepting)
        smaller = fleet(1, 1)
        plane.want(smaller)
        await plane.clock.until(lambda: len(plane.phases) == 2, limit_s=60)
        assert "decode-1" in plane.phases, "the one that answers stays"


async def test_waking_up_is_no_stall(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        process = world.of("decode-0")
        process.running = 2.0
        await plane.clock.advance(4)
        process.slow = True
        await plane.clock.advance(110)
        process.slow = False
        await plane.clock.advance(20)
        process.iterations += 1
        await plane.clock.advance(60)
        process.iterations += 1
        await plane.clock.advance(10)
        assert plane.one("decode-0").generation == 1
        assert plane.one("decode-0").phase is Phase.READY


async def test_a_prefill_that_holds_no_kv_need_not_wait_for_its_lease(world: World) -> None:
    async with Plane(world, fleet(2, 1)) as plane:
        await plane.ready()
        plane.data_plane.open("prefill-0", 1)
        world.of("prefill-0").kv_usage = 0.2
        await plane.operations.restart_instance("prefill-0", actor="ada", source="test")
        await plane.clock.advance(4)
        plane.data_plane.open("prefill-0", 0)
        await plane.clock.advance(4)
        assert plane.phases["prefill-0"] is Phase.DRAINING, "KV waits to be pulled"
        world.of("prefill-0").kv_usage = 0.0
        took = await plane.clock.until(lambda: plane.phases["prefill-0"] is not Phase.DRAINING)
        assert took <= 4
