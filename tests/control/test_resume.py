"""A restart keeps what operators did live, and an edited file wins."""

from __future__ import annotations

from dataclasses import replace

from pdctl.control.resume import chosen_live, desired_at_start, from_the_file
from pdctl.domain.change import Change, apply_to
from pdctl.domain.events import Event, EventKind
from pdctl.domain.ids import InstanceId, PoolName, Seq
from pdctl.domain.topology import (
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    Mode,
    Orders,
    PoolSpec,
    Role,
)
from tests.fakes.memory_store import MemoryStore

FILE = FleetSpec(
    name="f",
    model="m",
    served_name="m",
    mode=Mode.PD,
    engine=EngineSpec(),
    connector=ConnectorSpec(),
    pools=(PoolSpec(PoolName("prefill"), Role.PREFILL, 1),),
)


def test_first_start_is_revision_one() -> None:
    assert desired_at_start(FILE, None)[0].revision == 1


def test_a_live_mode_switch_survives_a_restart() -> None:
    stored = replace(FILE, mode=Mode.CHUNKED, revision=7, file_mode=Mode.PD)
    desired, why = desired_at_start(FILE, stored)
    assert (desired.mode, desired.revision) == (Mode.CHUNKED, 7)
    assert "resumed" in why


def test_an_edited_file_wins() -> None:
    stored = replace(FILE, mode=Mode.CHUNKED, revision=7, file_mode=Mode.PD)
    edited = replace(FILE, served_name="other")
    desired, why = desired_at_start(edited, stored)
    assert (desired.mode, desired.revision) == (Mode.PD, 8)
    assert "changed" in why


def test_a_mode_edited_in_the_file_wins_over_a_live_switch() -> None:
    stored = replace(FILE, mode=Mode.PD, revision=7, file_mode=Mode.PD)
    desired, _ = desired_at_start(replace(FILE, mode=Mode.CHUNKED), stored)
    assert (desired.mode, desired.revision) == (Mode.CHUNKED, 8)


def test_a_live_resize_and_a_drain_survive_a_restart() -> None:
    first, _ = desired_at_start(FILE, None)
    pools = (replace(FILE.pools[0], size=3),)
    orders = Orders(drained=(InstanceId("prefill-1"),))
    stored = replace(first, pools=pools, orders=orders, revision=4)
    desired, why = desired_at_start(FILE, stored)
    assert desired == stored
    assert "3p" in why


def test_a_size_edited_in_the_file_wins_over_a_live_resize() -> None:
    first, _ = desired_at_start(FILE, None)
    stored = replace(first, pools=(replace(FILE.pools[0], size=3),), revision=4)
    edited = replace(FILE, pools=(replace(FILE.pools[0], size=2),))
    desired, _ = desired_at_start(edited, stored)
    assert (desired.pools[0].size, desired.revision) == (2, 5)


def test_a_file_that_was_applied_live_is_resumed_as_well() -> None:
    first, _ = desired_at_start(FILE, None)
    other = replace(FILE, pools=(replace(FILE.pools[0], size=2),))
    changed = apply_to(Change(fleet=other), first, []).fleet
    grown = replace(changed, pools=(replace(FILE.pools[0], size=3),), revision=9)
    for file in (FILE, other):
        assert desired_at_start(file, grown)[0].pools[0].size == 3
    third = replace(FILE, pools=(replace(FILE.pools[0], size=4),))
    assert desired_at_start(third, grown)[0].pools[0].size == 4


def test_a_demo_begins_as_its_file_says() -> None:
    stored = replace(FILE, mode=Mode.CHUNKED, revision=7, file_mode=Mode.PD)
    desired, why = from_the_file(FILE, stored)
    assert (desired.mode, desired.revision) == (Mode.PD, 8)
    assert why == "as the fleet file says, mode pd"
    assert from_the_file(FILE, None)[0].revision == 1


async def test_a_mode_that_was_chosen_live_is_told_with_the_way_back() -> None:
    store = MemoryStore()
    first, _ = desired_at_start(FILE, None)
    await store.save_revision(first, actor="serve", reason="", at=0)
    switched = replace(first, mode=Mode.CHUNKED, revision=2)
    await store.save_revision(switched, actor="ada", reason="", at=3600)
    resized = replace(switched, revision=3)
    await store.save_revision(resized, actor="bob", reason="", at=7200)
    told = {"mode": "chunked", "revision": 2, "actor": "ada", "source": "web"}
    store.facts.append(Event(Seq(1), 3600.0, EventKind.FLEET_CHANGED, "fleet", told))
    assert await chosen_live(first, store) == ""
    assert await chosen_live(resized, store) == (
        "the fleet file says mode pd; chunked was chosen live at 1970-01-01 01:00:00 UTC by ada "
        "(web): "
        "`pdctl mode pd` returns to it"
    )
