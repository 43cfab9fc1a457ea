"""The bars of a request: complete, in order, inside its time, and honest about their source."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.records import record

from pdctl.api.waterfall import spans
from pdctl.contract.resources import SpanView
from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord

ENGINE = (("queue_time_ms", 5.0), ("time_to_first_token_ms", 40.0))
PREFILL = Leg("prefill", "prefill-0", "", 3.0, 49.0, 49.5, 50.0, 200, engine=ENGINE)
DECODE = Leg(
    "decode", "decode-0", "", 51.0, 79.0, 80.0, 200.0, 200,
    engine=(("queue_time_ms", 12.0), ("time_to_first_token_ms", 8.0)),
)  # fmt: skip
HANDED = RequestRecord(
    id="r", received_at=0.0, endpoint="/v1/completions", model="m", stream=True, mode="pd",
    path=Path.PD, path_reason="", outcome=Outcome.OK, status=200, queued_ms=2.5, params_age_ms=1.0,
    ttft_ms=80.4, e2e_ms=201.0, legs=(PREFILL, DECODE),
)  # fmt: skip


def named(record_: RequestRecord) -> dict[str, tuple[float, float, str]]:
    return {bar.name: (bar.start_ms, bar.end_ms, bar.source) for bar in spans(record_)}


def test_a_handoff_with_the_engines_own_times() -> None:
    assert named(HANDED) == {
        "queue": (0.0, 2.5, "measured"),
        "prefill queue": (3.0, 8.0, "derived"),
        "prefill compute": (8.0, 48.0, "derived"),
        "hand back": (48.0, 50.0, "derived"),
        "params held": (50.0, 51.0, "measured"),
        "decode admission + KV pull": (51.0, 72.0, "derived"),
        "first step": (72.0, 80.0, "derived"),
        "first token": (80.0, 80.4, "measured"),
        "decode streaming": (80.4, 200.0, "measured"),
    }
    notes = {bar.name: bar.note for bar in spans(HANDED)}
    assert "12.0 ms of queue" in notes["decode admission + KV pull"]


def test_a_handoff_of_an_engine_that_tells_nothing_stays_measured() -> None:
    silent = replace(HANDED, legs=(replace(PREFILL, engine=()), replace(DECODE, engine=())))
    bars = named(silent)
    assert bars["prefill"] == (3.0, 50.0, "measured")
    assert bars["decode admission + KV pull + first step"] == (51.0, 80.0, "measured")
    assert not any(source == "derived" for *_, source in bars.values())


def test_a_whole_request() -> None:
    leg = Leg("whole", "decode-0", "", 1.0, 20.0, 50.0, 90.0, 200, engine=ENGINE)
    bars = named(replace(HANDED, path=Path.CHUNKED, params_age_ms=None, ttft_ms=50.0, legs=(leg,)))
    assert bars["engine queue"] == (1.0, 10.0, "derived")
    assert bars["prefill compute"] == (10.0, 50.0, "derived")
    assert bars["decode streaming"] == (50.0, 90.0, "measured")


def test_an_answer_in_one_piece() -> None:
    bars = named(replace(HANDED, stream=False, ttft_ms=None))
    assert bars["decode admission + KV pull"] == (51.0, 63.0, "derived")
    assert bars["first step"] == (63.0, 71.0, "derived")
    assert bars["decode"] == (71.0, 200.0, "derived")


def test_a_retry_shows_the_attempt_that_failed() -> None:
    failed = Leg("prefill", "prefill-1", "", 1.0, done_ms=2.0, error="connection refused")
    bars = spans(replace(HANDED, legs=(failed, PREFILL, DECODE)))
    (bar,) = (one for one in bars if one.name == "prefill failed")
    assert (bar.instance, bar.note, bar.source) == ("prefill-1", "connection refused", "measured")
    assert {"prefill compute", "decode streaming"} <= {one.name for one in bars}


def test_an_end_that_nobody_saw_is_unknown() -> None:
    lost = replace(
        HANDED, outcome=Outcome.CLIENT_GONE, e2e_ms=30.0, ttft_ms=None, params_age_ms=None,
        legs=(replace(PREFILL, done_ms=None, first_byte_ms=None, engine=()),),
    )  # fmt: skip
    bar = spans(lost)[-1]
    assert (bar.name, bar.start_ms, bar.end_ms, bar.source) == ("prefill", 3.0, 30.0, "unknown")
    assert bar.note


def test_a_request_that_went_nowhere_has_its_queue_or_nothing() -> None:
    refused = replace(HANDED, path=Path.NONE, legs=(), params_age_ms=None)
    assert [bar.name for bar in spans(refused)] == ["queue", "router"]
    assert spans(replace(refused, queued_ms=None)) == []


def test_no_stretch_is_without_a_name() -> None:
    """The router read and chose for 19 ms, waited between the legs, and wrote on at the end."""
    late = replace(
        HANDED, queued_ms=0.1, e2e_ms=240.0, params_age_ms=None,
        legs=(replace(PREFILL, sent_ms=19.0), replace(DECODE, sent_ms=60.0)),
    )  # fmt: skip
    bars = [(bar.start_ms, bar.end_ms, bar.source) for bar in spans(late) if bar.name == "router"]
    assert bars == [(0.1, 19.0, "derived"), (50.0, 60.0, "derived"), (200.0, 240.0, "derived")]
    notes = [bar.note for bar in spans(late) if bar.name == "router"]
    assert "choosing" in notes[0]
    assert "10.0 ms" in notes[1]
    assert "client" in notes[2]


@given(seed=st.integers(0, 100_000))
@settings(max_examples=50, deadline=None)
def test_bars_leave_no_visible_hole(seed: int) -> None:
    one = record(Random(seed), seed, 1e9)
    covered = 0.0
    bars = spans(one)
    end = max([one.e2e_ms or 0.0, *(bar.end_ms for bar in bars)])
    for bar in bars:
        assert bar.start_ms - covered <= end * 0.005 + 1e-9
        covered = max(covered, bar.end_ms)
    assert not bars or end - covered <= end * 0.005 + 1e-9


@pytest.mark.parametrize("drift", [0.0, 1000.0, -20.0, math.nan, math.inf])
@given(seed=st.integers(0, 100_000))
@settings(max_examples=50, deadline=None)
def test_bars_are_ordered_and_inside_the_request(drift: float, seed: int) -> None:
    one = record(Random(seed), seed, 1e9)
    # An engine's clock is not ours: whatever it claims must not push a bar outside.
    legs = tuple(
        replace(leg, engine=tuple((name, value + drift) for name, value in leg.engine))
        for leg in one.legs
    )
    bars = spans(replace(one, legs=legs))
    assert all(isinstance(bar, SpanView) for bar in bars)
    for bar in bars:
        assert 0 <= bar.start_ms <= bar.end_ms <= (one.e2e_ms or 0) + 0.5, bar
        assert bar.source in ("measured", "derived", "unknown")
    for earlier, later in pairwise(bars):
        assert earlier.start_ms <= later.start_ms
        assert earlier.end_ms <= later.start_ms + 1e-6 or earlier.name == "queue"
