"""Everything at once, many times over: the fleet always comes back whole, with one of each."""

from __future__ import annotations

from random import Random

import pytest

from pdctl import tasks
from pdctl.domain.errors import OperatorError
from pdctl.domain.lifecycle import ALIVE, Phase
from pdctl.domain.topology import Mode
from tests.fakes.fleets import Plane, fleet, reflagged, resized
from tests.fakes.machine import World


async def mischief(plane: Plane, world: World, rng: Random) -> None:
    """One thing that goes wrong, or that an operator does."""
    process = rng.choice(world.alive) if world.alive else None
    what = rng.randrange(10)
    if what < 3 and process is not None:
        world.end(process, None, 9)
    elif what == 3 and process is not None:
        process.deaf = True
    elif what == 4 and process is not None:
        process.running = rng.choice([0.0, 2.0])
    elif what == 5 and process is not None:
        process.stuck = True
    elif what == 6:
        plane.want(resized(plane.state.fleet.desired, prefill=rng.randrange(3), decode=2))
    elif what == 7:
        plane.want(reflagged(plane.state.fleet.desired, max_num_seqs=rng.randrange(3)))
    elif what == 8 and process is not None:
        plane.data_plane.open(process.order.instance_id, rng.randrange(3))
    else:
        try:
            id_ = process.order.instance_id if process is not None else "decode-0"
            await plane.operations.restart_instance(id_, actor="storm", source="test")
            await plane.operations.set_mode(rng.choice(list(Mode)), actor="storm", source="test")
        except OperatorError:
            return


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_passes_and_leaves_a_whole_fleet(world: World, seed: int) -> None:
    rng = Random(seed)
    world.stall_first_s = rng.choice([0.0, 11.0])
    plane = Plane(world, fleet(1, 2, drain_timeout_s=20))
    for _ in range(3):
        async with plane:
            for _ in range(12):
                await plane.clock.advance(rng.choice([0.1, 1.0, 7.0, 25.0]))
                await mischief(plane, world, rng)
        plane = Plane(world, plane.state.fleet.desired, plane.store, plane.data_plane)
    async with plane:
        plane.data_plane.inflight.clear()
        for process in world.processes.values():
            process.deaf = process.stuck = False
            process.running = 0.0
        plane.want(resized(plane.state.fleet.desired, prefill=2, decode=2))
        for _ in range(40):
            await plane.clock.advance(30)
            for id_, phase in plane.phases.items():
                if phase is Phase.FAILED:
                    await plane.operations.clear_failure(id_, actor="storm", source="test")
            if plane.all_ready():
                break
        assert plane.all_ready(4), plane.state.fleet
        assert len(world.alive) == 4
        await plane.clock.advance(60)
        assert plane.data_plane.accepting == set(plane.phases)
        task = tasks.spawn(plane.reconciler.shutdown(), name="shutdown")
        await plane.clock.until(task.done, limit_s=60)
        assert not world.alive
        assert not [one for one in plane.state.fleet.instances if one.phase in ALIVE]
