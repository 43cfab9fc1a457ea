"""Verdicts against objectives: what is not known is not counted, and the cause is the reason."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.goodput import Cause, Result, Tally, Verdict, tail_gap, verdict
from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.histogram import bucket
from pdctl.domain.phases import phases
from pdctl.domain.topology import SloSpec
from tests.fakes.records import record

CHAT = SloSpec("chat", ttft_ms=500.0, tpot_ms=50.0, itl_p99_ms=200.0)
MET, UNJUDGED = Verdict(Result.MET), Verdict(Result.UNJUDGED)


def handed(
    prefill_ms: float = 100.0, transfer_ms: float = 20.0, queued_ms: float = 5.0, **fields: object
) -> RequestRecord:
    """A stream over PD whose first token came right after its phases."""
    sent, first = queued_ms + prefill_ms, queued_ms + prefill_ms + transfer_ms
    legs = (
        Leg("prefill", "prefill-0", "", queued_ms, headers_ms=sent, done_ms=sent, status=200),
        Leg("decode", "decode-0", "", sent, first_byte_ms=first, done_ms=first + 400, status=200),
    )
    base = RequestRecord(
        id="r", received_at=0.0, endpoint="/v1/completions", model="m", stream=True, mode="pd",
        path=Path.PD, path_reason="", outcome=Outcome.OK, status=200, queued_ms=queued_ms,
        ttft_ms=first, tpot_ms=10.0, e2e_ms=first + 400, completion_tokens=41, legs=legs,
        itl=((bucket(10.0), 40),),
    )  # fmt: skip
    return replace(base, **fields)  # type: ignore[arg-type]


def missed(cause: Cause) -> Verdict:
    return Verdict(Result.MISSED, cause)


def test_a_request_within_every_bound_met_it() -> None:
    assert verdict(handed(), CHAT) == MET


@pytest.mark.parametrize(
    ("phases_", "cause"),
    [
        ({"prefill_ms": 900.0}, Cause.PREFILL),
        ({"transfer_ms": 900.0}, Cause.TRANSFER),
        ({"queued_ms": 900.0}, Cause.QUEUE),
    ],
)
def test_a_late_first_token_names_the_longest_phase(
    phases_: dict[str, float], cause: Cause
) -> None:
    assert verdict(handed(**phases_), CHAT) == missed(cause)


def test_the_engines_own_queue_counts_as_queue() -> None:
    one = handed(prefill_ms=900.0)
    prefill = replace(one.legs[0], engine=(("queue_time_ms", 800.0),))
    late = replace(one, legs=(prefill, one.legs[1]))
    assert phases(late).queue == pytest.approx(805.0)
    assert phases(late).prefill == pytest.approx(100.0)
    assert verdict(late, CHAT) == missed(Cause.QUEUE)


def test_slow_tokens_and_long_gaps_are_told_apart() -> None:
    slow = handed(tpot_ms=90.0, itl=((bucket(90.0), 40),))
    one_gap = handed(tpot_ms=80.0, itl=((bucket(10.0), 39), (bucket(2800.0), 1)))
    tail = handed(itl=((bucket(10.0), 38), (bucket(400.0), 2)))
    assert verdict(slow, CHAT) == missed(Cause.DECODE)
    assert verdict(one_gap, CHAT) == missed(Cause.STALL)
    assert verdict(tail, CHAT) == missed(Cause.STALL)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.REJECTED, None),
        (Outcome.OVERLOADED, missed(Cause.QUEUE)),
        (Outcome.NO_INSTANCE, missed(Cause.ERROR)),
        (Outcome.UPSTREAM_ERROR, missed(Cause.ERROR)),
        (Outcome.TIMEOUT, missed(Cause.ERROR)),
        (Outcome.TRUNCATED, missed(Cause.ERROR)),
        (Outcome.CLIENT_GONE, UNJUDGED),
    ],
)
def test_how_it_ended_counts_before_how_quick_it_was(
    outcome: Outcome, said: Verdict | None
) -> None:
    assert verdict(handed(outcome=outcome), CHAT) == said


def test_a_client_that_left_late_was_served_late() -> None:
    gone = handed(
        outcome=Outcome.CLIENT_GONE, ttft_ms=None, tpot_ms=None, itl=(), completion_tokens=None
    )
    assert verdict(replace(gone, e2e_ms=501.0), CHAT) == missed(Cause.PREFILL)
    assert verdict(replace(gone, e2e_ms=400.0), CHAT) == UNJUDGED
    slow_first = replace(gone, ttft_ms=700.0, e2e_ms=900.0)
    assert verdict(slow_first, CHAT) is not None
    assert verdict(slow_first, CHAT) != UNJUDGED


def test_an_answer_in_one_piece_is_judged_by_what_it_cannot_exceed() -> None:
    whole = handed(stream=False, ttft_ms=None, tpot_ms=None, itl=())
    assert verdict(replace(whole, e2e_ms=150.0), CHAT) == MET
    assert verdict(replace(whole, e2e_ms=900.0), CHAT) == UNJUDGED
    assert verdict(replace(whole, e2e_ms=900.0), SloSpec("t", tpot_ms=50.0)) == MET


def test_a_single_token_has_no_pace() -> None:
    one = handed(completion_tokens=1, tpot_ms=None, itl=())
    assert verdict(one, CHAT) == MET


@given(st.lists(st.floats(0.02, 5000), min_size=1, max_size=300))
def test_the_tail_gap_is_the_99th_percentile(gaps: list[float]) -> None:
    counts: dict[int, int] = {}
    for gap in gaps:
        counts[bucket(gap)] = counts.get(bucket(gap), 0) + 1
    found = tail_gap(handed(itl=tuple(sorted(counts.items()))))
    exact = sorted(gaps)[math.ceil(0.99 * len(gaps)) - 1]
    assert found == pytest.approx(exact, rel=0.0101)


@given(st.integers(0, 2**32), st.floats(1, 2000), st.floats(1, 200))
def test_every_record_has_one_verdict_and_a_looser_objective_never_misses_more(
    seed: int, ttft: float, tpot: float
) -> None:
    one = record(Random(seed), 1, 0.0)
    found = verdict(one, SloSpec("a", ttft, tpot))
    looser = verdict(one, SloSpec("b", ttft * 2, tpot * 2))
    assert (found is None) == (one.outcome is Outcome.REJECTED)
    if found is not None and looser is not None:
        assert (found.cause is not None) == (found.result is Result.MISSED)
        if looser.result is Result.MISSED:
            assert found.result is Result.MISSED
        if found.result is Result.MET:
            assert looser.result is Result.MET


@given(st.lists(st.sampled_from([MET, UNJUDGED, *map(missed, Cause)]), max_size=40))
def test_tallies_add_up(verdicts: list[Verdict]) -> None:
    one, left, right = Tally(), Tally(), Tally()
    for place, found in enumerate(verdicts):
        one.add(found)
        (left if place % 2 else right).add(found)
    left.merge(right)
    assert left == one
    assert one.total == len(verdicts)
    judged = [found for found in verdicts if found != UNJUDGED]
    assert one.share == (verdicts.count(MET) / len(judged) if judged else None)
