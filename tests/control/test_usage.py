"""What instances take of their machine: kept by start, old visibly, never in anyone's way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.control.fleet_state import FleetState
from pdctl.control.usage import STALE_S, UsageBook
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Endpoint, Instance, Slot
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Role
from pdctl.domain.usage import Member, Usage, cores
from tests.fakes.clock import VirtualClock
from tests.fakes.usage import FakeMeter
from tests.fakes.world import spec


def instance(pid: int | None = 12, shim: int | None = 11, device: str = "") -> Instance:
    return Instance(
        id=InstanceId("decode-0"), pool=PoolName("decode"), role=Role.DECODE,
        slot=Slot(0, 1, 2, device=device), fingerprint="", phase=Phase.READY,
        reason=Reason.DESIRED, message="", since=0.0, endpoint=Endpoint("127.0.0.1", 1, 2),
        nonce="n1", pid=pid, shim_pid=shim,
    )  # fmt: skip


def used(at: float, cpu: float) -> Usage:
    return Usage(at, processes=3, cpu_seconds=cpu, resident=1e9)


class Bench:
    def __init__(self) -> None:
        self.clock, self.meter, self.state = VirtualClock(), FakeMeter(), FleetState(spec())
        self.book = UsageBook(self.state, self.meter, self.clock)

    def show(self, *instances: Instance) -> None:
        self.state.set_observed(list(instances), [], [], 0)


async def test_cores_are_between_two_looks_and_of_one_start() -> None:
    bench, one = Bench(), instance(device="0")
    bench.show(one)
    assert bench.book.of(one) is None
    for at, cpu in ((10.0, 4.0), (15.0, 9.0)):
        bench.meter.found = {"n1": used(at, cpu)}
        await bench.book.look()
    assert bench.meter.asked == [Member("n1", (12, 11), 12, "0")]
    assert bench.book.of(one) == used(15.0, 9.0)
    assert bench.book.cores(one) == pytest.approx(1.0)
    again = replace(one, nonce="n2")
    bench.show(again)
    bench.meter.found = {}
    await bench.book.look()
    assert bench.book.of(again) is None
    assert bench.book.cores(one) is None


def test_no_cores_are_negative() -> None:
    assert cores(used(1.0, 9.0), used(2.0, 3.0)) is None
    assert cores(used(2.0, 1.0), used(2.0, 3.0)) is None
    assert cores(None, used(2.0, 3.0)) is None


async def test_a_fleet_without_processes_costs_no_look() -> None:
    bench = Bench()
    bench.show(instance(pid=None, shim=None))
    bench.meter.failure = AssertionError("it was asked")
    await bench.book.look()
    assert bench.meter.asked == []


async def test_a_look_that_fails_leaves_what_was_seen_to_grow_old() -> None:
    bench, one = Bench(), instance()
    bench.show(one)
    seen = used(bench.clock.now(), 1.0)
    bench.meter.found = {"n1": seen}
    await bench.book.look()
    bench.meter.failure = OSError("no /proc")
    await bench.book.look()
    assert bench.book.of(one) == seen
    assert not bench.book.stale(seen)
    await bench.clock.advance(STALE_S + 1)
    assert bench.book.stale(seen)
