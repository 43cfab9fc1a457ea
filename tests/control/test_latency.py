"""Latency windows against exact values: merged buckets, never averaged percentiles."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.control.latency import LatencyBook
from pdctl.control.windows import SLICE_S, slice_s
from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.histogram import Histogram, bucket
from pdctl.domain.phases import final_legs
from tests.fakes.clock import VirtualClock
from tests.fakes.records import record

VALUES = st.floats(0.02, 600_000, allow_nan=False)


def finished(e2e_ms: float, path: Path = Path.PD, **fields: object) -> RequestRecord:
    legs = (Leg("prefill", "prefill-0", "", 0.0), Leg("decode", "decode-1", "", 1.0))
    base = RequestRecord(
        id="r", received_at=0.0, endpoint="/v1/completions", model="m", stream=True, mode="pd",
        path=path, path_reason="", outcome=Outcome.OK, status=200, e2e_ms=e2e_ms, legs=legs,
    )  # fmt: skip
    return replace(base, **fields)  # type: ignore[arg-type]


def exact(values: list[float], q: float) -> float:
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1]


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_within_one_percent(values: list[float], q: float) -> None:
    book = LatencyBook(VirtualClock())
    for value in values:
        book.add(finished(value))
    found = book.view("e2e", "all", 300)
    assert found.total == len(values)
    assert found.max_ms == max(values)
    assert found.quantile(q) == pytest.approx(exact(values, q), rel=0.0101)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 400), VALUES), min_size=1, max_size=60),
    st.sampled_from([60, 300, 3600, None]),
)
async def test_a_window_holds_exactly_its_slices(
    steps: list[tuple[float, float]], window_s: int | None
) -> None:
    clock = VirtualClock(settle=0)
    book = LatencyBook(clock)
    told: list[tuple[float, float]] = []
    for pause, value in steps:
        await clock.advance(pause)
        book.add(finished(value))
        told.append((clock.monotonic(), value))
    now = clock.monotonic()
    width = SLICE_S if window_s is None or window_s <= 300 else 60
    first = -math.inf if window_s is None else (now - window_s) // width
    wanted = [value for at, value in told if at // width >= first]
    found = book.view("e2e", "all", window_s)
    assert found.total == len(wanted)
    if wanted:
        assert found.quantile(0.5) == pytest.approx(exact(wanted, 0.5), rel=0.0101)


async def test_parts_of_the_fleet_add_up() -> None:
    book = LatencyBook(VirtualClock())
    rng = Random(3)
    records = [record(rng, number, 0.0) for number in range(300)]
    for one in records:
        book.add(one)
    everyone = book.view("ttft", "all", None).counts
    merged: dict[int, int] = {}
    for path in Path:
        for index, count in book.view("ttft", f"mode:{path}", None).counts.items():
            merged[index] = merged.get(index, 0) + count
    assert merged == everyone
    assert book.groups()[0] == "all"
    assert {"mode:pd", "pool:decode", "instance:prefill-0"} <= set(book.groups())


def test_token_gaps_come_as_buckets() -> None:
    book = LatencyBook(VirtualClock())
    book.add(finished(50.0, itl=((bucket(10.0), 7), (bucket(100.0), 1))))
    gaps = book.view("itl", "instance:decode-1", 60)
    assert gaps.total == 8
    assert gaps.quantile(0.5) == pytest.approx(10.0, rel=0.01)
    assert gaps.quantile(1.0) == pytest.approx(100.0, rel=0.01)
    assert gaps.max_ms is None


def test_what_is_unknown_is_not_counted() -> None:
    book = LatencyBook(VirtualClock())
    book.add(finished(5.0))
    assert book.view("ttft", "all", 60).total == 0
    assert book.view("ttft", "all", 60).quantile(0.5) is None
    assert book.view("e2e", "pool:nobody", 60).total == 0


async def test_memory_is_bounded_in_time() -> None:
    clock = VirtualClock(settle=0)
    book = LatencyBook(clock)
    for _ in range(2000):
        await clock.advance(10.0)
        book.add(finished(5.0))
    series = book._groups["all"]["e2e"]
    assert len(series.fine) <= 31
    assert len(series.coarse) <= 62
    assert book.view("e2e", "all", None).total == 2000


def test_a_retried_leg_does_not_count_for_the_instance_that_failed() -> None:
    legs = (
        Leg("prefill", "prefill-0", "", 0.0, error="refused"),
        Leg("prefill", "prefill-1", "", 1.0),
        Leg("decode", "decode-0", "", 2.0),
    )
    assert [leg.instance for leg in final_legs(finished(9.0, legs=legs))] == [
        "prefill-1",
        "decode-0",
    ]


def test_only_generations_that_were_taken_count() -> None:
    book = LatencyBook(VirtualClock())
    book.add(finished(500.0, ttft_ms=50.0, queued_ms=1.0))
    book.add(finished(1.0, Path.AGGREGATED, endpoint="/tokenize", queued_ms=1.0))
    book.add(finished(1.0, outcome=Outcome.REJECTED, status=400, queued_ms=1.0))
    book.add(finished(1.0, Path.NONE, outcome=Outcome.REJECTED, legs=()))
    book.add(finished(0.5, Path.NONE, outcome=Outcome.OVERLOADED, legs=(), queued_ms=9.0))
    assert book.view("e2e", "all", None).total == 1
    assert book.view("ttft", "all", None).total == 1
    queue = book.view("queue", "all", None)
    assert (queue.total, queue.max_ms) == (2, 9.0), "whoever waited in vain has waited"
    assert "mode:aggregated" not in book.groups()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 400), VALUES), min_size=1, max_size=60),
    st.sampled_from([300, 3600]),
)
async def test_a_series_is_its_window_cut_into_slices(
    steps: list[tuple[float, float]], window_s: int
) -> None:
    clock = VirtualClock(settle=0)
    book = LatencyBook(clock)
    for pause, value in steps:
        await clock.advance(pause)
        book.add(finished(value))
    slices = book.series("e2e", "all", window_s)
    merged = Histogram()
    for _, part in slices:
        merged.merge(part)
    assert merged.counts == book.view("e2e", "all", window_s).counts
    ages = [age for age, _ in slices]
    assert ages == sorted(ages, reverse=True)
    assert all(0 <= age <= window_s + slice_s(window_s) for age in ages)
    assert book.series("e2e", "instance:nobody", window_s) == []
