"""The routing table says who serves, and only what has been proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.control.table_builder import build, differs
from pdctl.domain.fleet import Fleet
from pdctl.domain.instance import EngineStats
from pdctl.domain.lifecycle import Phase
from pdctl.domain.table import RoutingTable
from pdctl.domain.topology import Mode
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World


async def whole(world: World) -> Fleet:
    """A fleet that is ready."""
    async with Plane(world, fleet(1, 2)) as plane:
        await plane.ready()
        return plane.state.fleet


@pytest.mark.parametrize("phase", list(Phase))
async def test_only_ready_ones_accept_and_only_draining_ones_linger(
    world: World, phase: Phase
) -> None:
    ready = await whole(world)
    prefill, first, second = ready.instances
    seen = replace(ready, instances=(prefill, replace(first, phase=phase), second))
    table = build(seen, 7)
    targets = {target.id: target.accepts for target in table.targets}
    expected = {"prefill-0": True, "decode-1": True}
    if phase in (Phase.READY, Phase.DRAINING):
        expected["decode-0"] = phase is Phase.READY
    assert targets == expected
    pairs = {("prefill-0", "decode-1")}
    if phase is Phase.READY:
        pairs.add(("prefill-0", "decode-0"))
    assert set(table.pairs) == pairs
    assert table.seq == 7


async def test_an_engine_that_says_so_is_full(world: World) -> None:
    ready = await whole(world)
    used = {"prefill-0": None, "decode-0": 0.89, "decode-1": 0.9}
    seen = tuple(
        replace(one, stats=EngineStats(at=0.0, kv_usage=used[one.id])) for one in ready.instances
    )
    table = build(replace(ready, instances=seen), 1)
    assert [one.id for one in table.targets if one.kv_full] == ["decode-1"]
    assert RoutingTable.from_json(table.to_json()) == table


@pytest.mark.parametrize("state", ["untried", "probing", "failing"])
async def test_a_pair_that_has_not_proved_itself_is_not_offered(world: World, state: str) -> None:
    ready = await whole(world)
    pairs = tuple(replace(pair, state=state) for pair in ready.pairs)
    table = build(replace(ready, pairs=pairs), 1)
    assert table.pairs == ()
    assert len(table.targets) == 3


async def test_a_table_differs_by_what_it_says_not_by_its_number(world: World) -> None:
    ready = await whole(world)
    old = build(ready, 1)
    assert differs(old, None)
    assert not differs(build(ready, 2), old)
    chunked = replace(ready, desired=replace(ready.desired, mode=Mode.CHUNKED))
    assert differs(build(chunked, 2), old)
    assert old.limits == ready.desired.router
    assert old.lease_s == 10.0
