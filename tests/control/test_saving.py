"""Nothing starts over another's head: leases come before processes."""

from __future__ import annotations

from pdctl.domain.ids import InstanceId
from pdctl.domain.leases import holder, leases, unique
from pdctl.domain.lifecycle import Phase
from tests.fakes.fleets import Plane, fleet, resized
from tests.fakes.machine import World


async def test_a_start_is_on_record_before_its_process_is(world: World) -> None:
    async with Plane(world, fleet(1, 2, cores=("0-1", "2", "3", "4"))) as plane:
        launch = plane.launcher.launch

        async def checked(order: object) -> object:
            id_ = order.instance_id  # type: ignore[attr-defined]
            assert id_ in {lease.instance for lease in plane.store.leases}
            assert id_ in {one.id for one in plane.store.instances}
            return await launch(order)  # type: ignore[arg-type]

        plane.launcher.launch = checked  # type: ignore[assignment,method-assign]
        await plane.clock.until(lambda: len(plane.phases) == 3)
        await plane.clock.until(lambda: set(plane.phases.values()) == {Phase.READY})


async def test_what_has_left_holds_nothing(world: World) -> None:
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        assert len({lease.instance for lease in plane.store.leases}) == 3
        plane.want(resized(plane.spec, decode=1))
        await plane.clock.until(lambda: len(plane.phases) == 2)
        await plane.clock.until(lambda: len({one.instance for one in plane.store.leases}) == 2)


async def test_who_has_lost_the_database_starts_nothing(world: World) -> None:
    plane = Plane(world)
    plane.store.lost = True
    async with plane:
        await plane.clock.until(lambda: plane.phases.get("decode-0") is Phase.BACKOFF)
        assert "Another pdctl owns the store" in plane.one("decode-0").message
        assert not world.processes
        plane.store.lost = False
        await plane.ready()


async def test_a_store_that_is_away_holds_up_nobody(world: World) -> None:
    plane = Plane(world)
    async with plane:
        plane.store.failing = True
        await plane.clock.until(lambda: len(plane.phases) == 2)
        await plane.clock.until(lambda: set(plane.phases.values()) == {Phase.READY})
        plane.store.failing = False


async def test_shared_things_are_seen_and_kept_once(world: World) -> None:
    async with Plane(world, fleet(1, 1, cores=("0", "1"))) as plane:
        await plane.ready()
        one, other = plane.state.fleet.instances
    held = leases(plane.spec, (one, other))
    assert {(lease.kind, lease.value) for lease in held} == {
        ("port", str(port)) for port in (one.slot.http_port, one.slot.side_channel_port)
    } | {("port", str(port)) for port in (other.slot.http_port, other.slot.side_channel_port)} | {
        ("core", one.slot.core), ("core", other.slot.core)
    }  # fmt: skip
    assert unique(held) == held
    assert holder(held, one.id) is None
    twice = (*held, *(type(lease)(lease.kind, lease.value, InstanceId("x"), 1) for lease in held))
    assert unique(twice) == held
    found = holder(twice, InstanceId("x"))
    assert found is not None
    assert found.instance == one.id
