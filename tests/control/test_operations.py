"""The operator's verbs: durable first, idempotent, always answered for."""

from __future__ import annotations

import asyncio

import pytest

from pdctl.domain.errors import ConflictError, InternalError, NotFoundError
from pdctl.domain.events import EventKind
from pdctl.domain.topology import FleetSpec, Mode
from tests.fakes.asking import Who
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World

WHO: Who = {"actor": "ada", "source": "cli"}


async def test_a_mode_is_saved_told_and_in_force(world: World) -> None:
    plane = Plane(world)
    after = await plane.operations.set_mode(Mode.CHUNKED, **WHO)
    assert after.mode is Mode.CHUNKED
    assert after.revision == 2
    assert plane.state.fleet.desired == after
    assert plane.store.revisions == [after]
    (changed,) = plane.events(EventKind.FLEET_CHANGED)
    assert changed.data == {"mode": "chunked", "revision": 2, **WHO}
    assert plane.state.fleet.seq == changed.seq
    (told,) = plane.events(EventKind.OPERATION)
    assert told.data == {
        "verb": "set_mode", "before": "pd", "after": "chunked", "outcome": "done", "message": "",
        **WHO,
    }  # fmt: skip


async def test_the_same_mode_again_changes_nothing(world: World) -> None:
    plane = Plane(world)
    before = plane.state.fleet
    assert await plane.operations.set_mode(Mode.PD, **WHO) == before.desired
    assert plane.state.fleet is before
    assert plane.feed.seq == 0
    assert plane.store.revisions == []


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (fleet(0, 1, mode=Mode.CHUNKED), "no_prefill_pool"),
        (fleet(1, 0, mode=Mode.CHUNKED), "no_decode_pool"),
        (fleet(0, 0, both=1, mode=Mode.CHUNKED), "no_peer"),
    ],
)
async def test_what_can_never_serve_pd_is_refused(world: World, spec: FleetSpec, code: str) -> None:
    plane = Plane(world, spec)
    with pytest.raises(ConflictError) as caught:
        await plane.operations.set_mode(Mode.PD, **WHO)
    assert caught.value.code == code
    assert caught.value.hint
    assert plane.state.fleet.desired == spec
    (told,) = plane.events(EventKind.OPERATION)
    assert told.data["outcome"] == "refused"
    assert told.data["message"] == str(caught.value)


async def test_two_that_do_both_can_serve_pd(world: World) -> None:
    plane = Plane(world, fleet(0, 0, both=2, mode=Mode.CHUNKED))
    assert (await plane.operations.set_mode(Mode.PD, **WHO)).mode is Mode.PD


async def test_a_change_that_cannot_be_stored_is_not_made(world: World) -> None:
    plane = Plane(world)
    plane.store.failing = True
    with pytest.raises(InternalError):
        await plane.operations.set_mode(Mode.CHUNKED, **WHO)
    assert plane.state.fleet.desired.mode is Mode.PD
    (told,) = plane.events(EventKind.OPERATION)
    assert told.data["outcome"] == "failed"


async def test_verbs_at_once_take_turns(world: World) -> None:
    plane = Plane(world)
    modes = [Mode.CHUNKED, Mode.PD, Mode.CHUNKED, Mode.PD]
    await asyncio.gather(*(plane.operations.set_mode(mode, **WHO) for mode in modes))
    assert [one.revision for one in plane.store.revisions] == [2, 3, 4, 5]
    assert plane.state.fleet.desired.mode is Mode.PD


async def test_what_is_not_there_is_named_with_what_is(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        with pytest.raises(NotFoundError, match="Known: prefill-0, decode-0"):
            await plane.operations.restart_instance("decode-9", **WHO)
        with pytest.raises(ConflictError, match="it is ready"):
            await plane.operations.clear_failure("decode-0", **WHO)
        outcomes = [event.data["outcome"] for event in plane.events(EventKind.OPERATION)]
        assert outcomes == ["refused", "refused"]


async def test_a_second_restart_of_the_same_start_is_refused(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        plane.data_plane.open("decode-0", 1)
        await plane.operations.restart_instance("decode-0", **WHO)
        await plane.clock.advance(1)
        with pytest.raises(ConflictError, match="draining already"):
            await plane.operations.restart_instance("decode-0", **WHO)


async def test_wishes_of_past_generations_are_dropped(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        await plane.operations.restart_instance("decode-0", **WHO)
        await plane.clock.until(lambda: plane.one("decode-0").generation == 2)
        await plane.ready()
        await plane.operations.restart_instance("decode-0", **WHO)
        assert plane.state.wishes.restart == {("decode-0", 2)}


async def test_nothing_is_taken_on_while_the_fleet_shuts_down(world: World) -> None:
    async with Plane(world) as plane:
        await plane.ready()
        plane.reconciler.force()
        with pytest.raises(ConflictError, match="shut down"):
            await plane.operations.set_mode(Mode.CHUNKED, **WHO)


async def test_restarts_in_quick_succession_are_one(world: World) -> None:
    world.load_s = 300.0
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        codes = []
        for _ in range(12):
            try:
                await plane.operations.restart_instance("decode-0", actor="ada", source="test")
            except ConflictError as error:
                codes.append(error.code)
            await plane.clock.advance(3)
        assert plane.one("decode-0").generation == 2
        assert len(codes) == 11
        assert set(codes) <= {"already_restarting", "already_stopping"}
        process = world.of("decode-0")
        process.load_s = 10_000.0
        await plane.clock.advance(300)
        await plane.operations.restart_instance("decode-0", actor="ada", source="test")
        await plane.clock.until(lambda: plane.one("decode-0").generation == 3)
        await plane.ready()
        await plane.operations.restart_instance("decode-0", actor="ada", source="test")
        await plane.clock.until(lambda: plane.one("decode-0").generation == 4)
