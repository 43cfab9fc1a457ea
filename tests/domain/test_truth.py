"""What an engine's counters say of one request's KV: evidence, or unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.handoff import Leg, Outcome, Path
from pdctl.domain.truth import Counts, Kv, Offer, Reading, judged, offered, stranded
from tests.domain.test_goodput import handed

OFFER = Offer("r", "prefill-0", "decode-0", 1000, sent=100.0, first=100.5)


def readings(computed: float = 0, cached: float = 0, pulled: float = 0) -> list[Reading]:
    return [Reading(99.0, 10, 20, 30), Reading(101.0, 10 + computed, 20 + cached, 30 + pulled)]


@pytest.mark.parametrize(
    ("grown", "said"),
    [
        ({"pulled": 1000, "computed": 1}, Kv.MOVED),
        ({"cached": 1000}, Kv.CACHED),
        ({"computed": 1000}, Kv.RECOMPUTED),
        ({"computed": 1000, "pulled": 1000}, Kv.UNKNOWN),
        ({}, Kv.UNKNOWN),
        ({"computed": -10}, Kv.UNKNOWN),
    ],
)
def test_one_request_alone(grown: dict[str, float], said: Kv) -> None:
    assert judged(OFFER, readings(**grown)) is said


def test_it_waits_for_a_scrape_after_the_first_token_and_needs_one_before() -> None:
    assert judged(OFFER, readings(pulled=1000)[:1]) is None
    assert judged(OFFER, []) is None
    assert judged(OFFER, readings(pulled=1000)[1:]) is Kv.UNKNOWN
    at_once = [replace(one, at=100.6) if one.at > 100 else one for one in readings(pulled=1000)]
    assert judged(OFFER, at_once) is None, "the engine may not have counted it yet"


def test_later_scrapes_do_not_blur_it() -> None:
    later = Reading(103.0, 99_999, 20, 1030)
    assert judged(OFFER, [*readings(pulled=1000), later]) is Kv.MOVED


@given(
    st.lists(st.tuples(st.sampled_from(["pulled", "computed", "cached"]), st.integers(16, 4000)))
)
def test_no_verdict_contradicts_what_happened(others: list[tuple[str, int]]) -> None:
    """Whatever else the engine did in that time, the request itself was pulled (or computed)."""
    grown = {"pulled": 0.0, "computed": 0.0, "cached": 0.0}
    for source, tokens in others:
        grown[source] += tokens
    moved = judged(OFFER, readings(**{**grown, "pulled": grown["pulled"] + 1000}))
    computed = judged(OFFER, readings(**{**grown, "computed": grown["computed"] + 1000}))
    assert moved in (Kv.MOVED, Kv.UNKNOWN)
    assert computed in (Kv.RECOMPUTED, Kv.UNKNOWN)


def test_only_an_answering_decode_leg_was_offered_anything() -> None:
    one = handed(remote_tokens=640)
    found = offered(one)
    assert found is not None
    assert (found.prefill, found.decode, found.tokens) == ("prefill-0", "decode-0", 640)
    assert found.sent < found.first
    assert offered(replace(one, path=Path.AGGREGATED)) is None
    assert offered(replace(one, remote_tokens=None)) is None
    failed = replace(one.legs[1], status=500)
    assert offered(replace(one, legs=(one.legs[0], failed))) is None


def test_what_nobody_can_pull_is_stranded() -> None:
    one = handed(remote_tokens=640)
    assert stranded(one) == []
    alone = replace(one, outcome=Outcome.CLIENT_GONE, legs=one.legs[:1])
    (found,) = stranded(alone)
    assert (found.prefill, found.tokens, found.why) == ("prefill-0", 640, "decode was never asked")
    refused = replace(one.legs[1], failure="connect", error="refused", status=None)
    again = Leg("prefill", "prefill-1", "", 300.0, headers_ms=400.0, status=200)
    (found,) = stranded(replace(one, legs=(one.legs[0], refused, again, one.legs[1])))
    assert (found.prefill, found.why) == ("prefill-0", "decode-0 could not be reached")


def test_counts_add_up() -> None:
    left, right = Counts(), Counts()
    assert left.total == 0
    left.add("moved")
    right.add("moved", 2.0)
    right.add("late")
    left.merge(right)
    assert left.by == {"moved": 3.0, "late": 1.0}
    assert left.total
