"""The signals of the made-up world: looked at only when a test (or a tick of dev_admin) says so."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

from pdctl.control.signals.courier import Courier
from pdctl.control.signals.desk import Ground, SignalDesk
from pdctl.control.signals.tally import Tally

if TYPE_CHECKING:
    from tests.fakes.world import World


async def nobody(address: str, body: dict[str, Any], timeout_s: float) -> int:
    """A webhook that takes everything."""
    return 200


def desk_of(world: World) -> SignalDesk:
    """What watches `world`."""
    return SignalDesk(
        state=world.state, feed=world.feed, clock=world.clock, store=world.store,
        tally=Tally(world.clock), load=lambda: world.load, handoffs=dict,
        ground=Ground(lambda: 0.42, lambda: ""), scrape_interval_s=2.0,
        operations=cast("Any", world.plane.operations),
        courier=lambda delivered: Courier(
            nobody, world.clock, spec=lambda: world.state.fleet.desired.signals.webhook,
            delivered=delivered, fleet="simulated", rng=Random(1),
        ),
    )  # fmt: skip


def look(world: World, times: int = 1) -> None:
    """Judge the world so many times, without time going by."""
    assert world.plane.signals is not None
    for _ in range(times):
        world.plane.signals.look()
