"""Ports that somebody else has: raced for, passed over, and never waited for."""

from __future__ import annotations

from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World


async def test_a_lost_port_race_is_nobodys_failure(world: World) -> None:
    world.foreign_ports = {18000, 18001}
    async with Plane(world) as plane:
        await plane.ready()
        ports = {one.slot.http_port for one in plane.state.fleet.instances}
        assert not ports & world.foreign_ports
        assert all(one.failures == 0 for one in plane.state.fleet.instances)


async def test_somebody_elses_engine_is_never_taken_for_ours(world: World) -> None:
    world.squatted_ports = {18000, 18002}
    async with Plane(world) as plane:
        await plane.ready()
        assert {order.slot.http_port for order in world.launches} == {18001, 18003}
        assert all(one.failures == 0 for one in plane.state.fleet.instances)
        said = [e.data["message"] for e in plane.events(EventKind.INSTANCE_CHANGED, "prefill-0")]
        assert "somebody else's server answers on port 18000" in said


async def test_a_band_full_of_foreigners_becomes_a_failure(world: World) -> None:
    world.foreign_ports = set(range(18000, 18040))
    async with Plane(world, fleet(0, 1)) as plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.FAILED)
        assert plane.one("decode-0").reason is Reason.PORT_RACE
        assert len(world.launches) == 5 + 6


async def test_a_taken_side_channel_port_is_not_waited_for(world: World) -> None:
    world.deaf_ports = {18100}
    async with Plane(world, fleet(0, 1)) as plane:
        took = await plane.ready()
        assert took < 40, "vLLM would hang for ever"
        assert len(world.launches) == 2
        assert [order.slot.side_channel_port for order in world.launches] != [18100, 18100]
        assert plane.rungs("decode-0") == ["kill"]
        assert plane.one("decode-0").failures == 0
        told = [e.data for e in plane.events(EventKind.INSTANCE_CHANGED, "decode-0")]
        (lost,) = [data for data in told if data["phase"] == "backoff"]
        assert lost["reason"] == "port_race"
        assert "Address already in use" in lost["message"]
