"""Our own defects, and ends that do not come: supervision goes on, and nothing lies about it."""

from __future__ import annotations

from typing import NoReturn

import pytest

from pdctl import tasks
from pdctl.domain.actions import Drain
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase
from tests.fakes.fleets import Plane, fleet, resized
from tests.fakes.machine import World


def notices(plane: Plane) -> list[str]:
    """What an operator was told; what the test provoked is taken out of the feed."""
    told = [str(event.data["message"]) for event in plane.events(EventKind.NOTICE)]
    plane.feed._ring.clear()
    return told


async def test_one_instance_in_trouble_does_not_hold_up_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        stopping, drain = plane.reconciler._stopping, plane.reconciler._stopping.drain

        def refuse(action: Drain) -> None:
            raise ValueError("a defect of ours")

        monkeypatch.setattr(stopping, "drain", refuse)
        plane.want(resized(plane.spec, decode=1))
        await plane.clock.advance(1)
        world.crash("prefill-0")
        await plane.clock.until(lambda: plane.phases["prefill-0"] is Phase.READY)
        assert len(notices(plane)) == 1, "told now and then, not at each look"
        monkeypatch.setattr(stopping, "drain", drain)
        await plane.clock.until(lambda: plane.all_ready(2), limit_s=30)


async def test_a_defect_in_the_watch_does_not_end_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Plane(world, fleet(0, 1)) as plane:
        await plane.ready()

        def broken() -> NoReturn:
            raise ValueError("a defect of ours")

        with monkeypatch.context() as patch:
            patch.setattr(plane.reconciler._watching, "begin", broken)
            await plane.clock.advance(30)
        assert len(notices(plane)) == 1
        before = plane.probe.scrapes
        await plane.clock.advance(30)
        assert plane.probe.scrapes > before


async def test_a_shutdown_can_be_given_up_and_says_what_it_leaves(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        process = world.of("decode-0")
        process.stuck = process.unkillable = True
        task = tasks.spawn(plane.reconciler.shutdown(), name="shutdown")
        await plane.clock.advance(60)
        assert not task.done()
        plane.reconciler.give_up()
        await plane.clock.until(task.done, limit_s=1)
        assert task.result() == ("decode-0 stopping",)


async def test_a_shutdown_before_adoption_can_be_given_up_too(world: World) -> None:
    plane = Plane(world)
    plane.launcher.hang = True
    async with plane:
        task = tasks.spawn(plane.reconciler.shutdown(), name="shutdown")
        await plane.clock.advance(60)
        assert not task.done()
        plane.reconciler.give_up()
        await plane.clock.until(task.done, limit_s=1)
        assert "cannot be read" in task.result()[0]


async def test_detach_does_not_wait_for_adoption(world: World) -> None:
    plane = Plane(world)
    plane.launcher.hang = True
    async with plane:
        await plane.clock.advance(1)
        task = tasks.spawn(plane.reconciler.detach(), name="detach")
        await plane.clock.until(task.done, limit_s=10)
