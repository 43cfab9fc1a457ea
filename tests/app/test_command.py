"""The command that is shown is the one that runs, not the one that would be run now."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.clock import VirtualClock
from tests.fakes.fleets import Plane, fleet, reflagged
from tests.fakes.machine import World

from pdctl.app.wiring import command_of


async def test_a_running_instance_shows_what_it_was_started_with() -> None:
    world = World(VirtualClock())
    async with Plane(world, fleet(0, 1)) as plane:
        await plane.ready()
        wanted = replace(plane.state.fleet, desired=reflagged(plane.spec, max_num_seqs=8))
        shown = command_of(wanted, plane.launcher, "decode-0")
        assert shown is not None
        assert list(shown[0]) == list(world.of("decode-0").order.argv)
        gone = replace(wanted, desired=replace(wanted.desired, pools=()))
        assert command_of(gone, plane.launcher, "decode-0") == shown
        process = world.of("decode-0")
        world.crash("decode-0")
        world.forgotten.append(process.order.nonce)
        would = command_of(wanted, plane.launcher, "decode-0")
        assert would is not None
        assert "--max-num-seqs" in would[0]
        assert command_of(gone, plane.launcher, "decode-0") is None
        assert command_of(wanted, plane.launcher, "decode-9") is None
