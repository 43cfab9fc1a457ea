"""Slots: never two owners, always the lowest free one, and a reason when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain.instance import Refused, Slot
from pdctl.domain.placement import Holding, atoms, overlap, place, ports, side_channels
from pdctl.domain.topology import FleetSpec, PortBand
from tests.fakes.fleets import fleet


def spec(**pool_changes: object) -> FleetSpec:
    """A fleet whose prefill pool has been changed."""
    base = fleet(2, 2)
    first = replace(base.pools[0], **pool_changes)  # type: ignore[arg-type]
    return replace(base, pools=(first, *base.pools[1:]))


def fill(fleet_: FleetSpec, n: int) -> list[Holding]:
    """Place instances into the first pool until `n` have a slot or none is left."""
    held: list[Holding] = []
    pool = fleet_.pools[0]
    for i in range(n):
        slot = place(fleet_, pool, held)
        if isinstance(slot, Refused):
            break
        held.append(Holding(f"{pool.name}-{i}", pool.name, slot, side_channels(fleet_, pool)))
    return held


def test_the_first_slots_are_the_lowest() -> None:
    one, two = (held.slot for held in fill(spec(), 2))
    assert one == Slot(0, 18000, 18100)
    assert two == Slot(1, 18001, 18101)


def test_a_gap_is_filled() -> None:
    held = fill(spec(), 3)
    del held[1]
    assert place(spec(), spec().pools[0], held) == Slot(1, 18001, 18101)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("0", {"0"}),
        ("0,1", {"0", "1"}),
        ("0-3", {"0", "1", "2", "3"}),
        ("0-1|4", {"0", "1", "4"}),
        ("GPU-8f2a-11", {"GPU-8f2a-11"}),
    ],
)
def test_devices_and_cores_are_taken_apart(text: str, expected: set[str]) -> None:
    assert atoms(text) == expected


def test_overlapping_cores_of_another_pool_are_not_given_again() -> None:
    fleet_ = spec(cores=("0-3", "4-7"))
    other = [Holding("decode-0", "decode", Slot(0, 18000, 18100, core="2"))]
    assert place(fleet_, fleet_.pools[0], other) == Slot(1, 18001, 18101, core="4-7")
    full = [*other, Holding("decode-1", "decode", Slot(1, 18001, 18101, core="7"))]
    refused = place(fleet_, fleet_.pools[0], full)
    assert isinstance(refused, Refused)
    assert refused.why == "none of its 2 cores is free"
    assert refused.details == ("0-3: decode-0", "4-7: decode-1")


def test_devices_and_cores_go_together() -> None:
    fleet_ = spec(devices=("0", "1"), cores=("0-3", "4-7"))
    held = fill(fleet_, 5)
    assert [(one.slot.device, one.slot.core) for one in held] == [("0", "0-3"), ("1", "4-7")]


def test_one_side_channel_port_for_each_data_parallel_rank() -> None:
    fleet_ = spec(args=(("data-parallel-size", 4),))
    first, second = fill(fleet_, 2)
    assert list(ports(first)) == [18000, 18100, 18101, 18102, 18103]
    assert second.slot.side_channel_port == 18104


@pytest.mark.parametrize("band", ["http_ports", "side_channel_ports"])
def test_a_full_band_is_refused_by_its_name(band: str) -> None:
    fleet_ = replace(spec(), **{band: PortBand(19000, 19001)})  # type: ignore[arg-type]
    held = fill(fleet_, 9)
    assert len(held) == 2
    refused = place(fleet_, fleet_.pools[0], held)
    assert isinstance(refused, Refused)
    assert band in refused.why
    assert "19000-19001" in refused.why


def test_after_a_lost_race_the_device_stays_and_the_ports_move_on() -> None:
    fleet_ = spec(cores=("0", "1"))
    lost = Slot(1, 18003, 18103, core="1")
    assert place(fleet_, fleet_.pools[0], [], avoid=lost) == Slot(1, 18004, 18104, core="1")
    last = Slot(1, 18039, 18179, core="1")
    assert place(fleet_, fleet_.pools[0], [], avoid=last) == Slot(1, 18000, 18100, core="1")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["0", "1", "0-1", "2-3", "1,2", "5"]), max_size=4),
    st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12),
    st.integers(1, 3),
)
def test_no_two_owners_whatever_comes_and_goes(
    cores: list[str], moves: list[tuple[bool, int]], width: int
) -> None:
    fleet_ = spec(cores=tuple(cores), args=(("data-parallel-size", width),))
    held: list[Holding] = []
    for n, (comes, which) in enumerate(moves):
        if comes:
            pool = fleet_.pools[which % 2]
            slot = place(fleet_, pool, held)
            if isinstance(slot, Slot):
                held.append(Holding(f"x-{n}", pool.name, slot, side_channels(fleet_, pool)))
        elif held:
            held.pop(which % len(held))
        taken = [port for one in held for port in ports(one)]
        assert len(taken) == len(set(taken))
        for i, one in enumerate(held):
            assert one.slot.http_port in fleet_.http_ports
            assert not any(overlap(one.slot, other.slot) for other in held[:i])
