"""What a finished request says about its pairs, and what a pair makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Pair
from pdctl.domain.pairing import (
    FAILING,
    INCOMPATIBLE,
    OK,
    PAUSED,
    PROBING,
    QUARANTINED,
    STATES,
    UNTRIED,
)
from pdctl.domain.quarantine import FIRST_PAUSE_S, FRESH_S, STRIKES, Evidence, evidence, weigh

PAIR = Pair(InstanceId("prefill-0"), InstanceId("decode-0"), OK, last_ok=1000.0)
BAD = Evidence("prefill-0", "decode-0", worked=False, why="KV load failed")
GOOD = Evidence("prefill-0", "decode-0", worked=True)


def leg(kind: str, instance: str, *, status: int | None = 200, failure: str = "") -> Leg:
    """One leg that ended that way."""
    error = f"{failure} it was" if failure else ""
    return Leg(kind, instance, "", 0.0, status=status, failure=failure, error=error)


def record(*legs: Leg, received_at: float = 1001.0) -> RequestRecord:
    """A finished request with those legs."""
    return RequestRecord(
        id="r", received_at=received_at, endpoint="/v1/completions", model="tiny", stream=False,
        mode="pd", path=Path.PD, path_reason="", outcome=Outcome.OK, status=200, legs=legs,
    )  # fmt: skip


def after(pair: Pair, *seen: Evidence, received_at: float = 1001.0, wall: float = 1002.0) -> Pair:
    """The pair after all of it, at monotonic 50."""
    for one in seen:
        pair = weigh(pair, one, received_at=received_at, wall=wall, now=50.0)
    return pair


@pytest.mark.parametrize(
    ("status", "failure", "blamed"),
    [
        (500, "status", True), (502, "status", True), (200, "status", True), (503, "status", False),
        (None, "timeout", True), (200, "timeout", True), (None, "connect", False),
        (None, "died", False), (200, "aborted", False), (None, "stale", False),
    ],
)  # fmt: skip
def test_only_what_speaks_of_the_pair_counts(
    status: int | None, failure: str, blamed: bool
) -> None:
    failed = record(leg("prefill", "p"), leg("decode", "d", status=status, failure=failure))
    found = [(one.prefill, one.decode, one.worked) for one in evidence(failed)]
    assert found == ([("p", "d", False)] if blamed else [])


def test_each_attempt_speaks_of_its_own_pair() -> None:
    retried = record(
        leg("prefill", "p0"), leg("decode", "d0", status=500, failure="status"),
        leg("prefill", "p1"), leg("decode", "d0"),
    )  # fmt: skip
    assert [(one.prefill, one.worked) for one in evidence(retried)] == [("p0", False), ("p1", True)]
    assert not list(evidence(record(leg("whole", "d0", status=500, failure="status"))))
    refused = replace(leg("decode", "d0", status=400), error="max_tokens is negative")
    assert not list(evidence(record(leg("prefill", "p0"), refused)))
    left = replace(leg("decode", "d0"), error="the client left")
    assert not list(evidence(record(leg("prefill", "p0"), left)))


def test_failures_in_a_row_quarantine_with_the_reason() -> None:
    assert after(PAIR, *[BAD] * (STRIKES - 1)).state == OK
    out = after(PAIR, *[BAD] * STRIKES)
    assert out.state == QUARANTINED
    assert out.message == "3 requests in a row failed on it; last: KV load failed"
    assert out.retry_at == pytest.approx(50.0 + FIRST_PAUSE_S, rel=0.1)
    assert after(PAIR, *[BAD] * (STRIKES - 1), GOOD, *[BAD] * (STRIKES - 1)).state == OK


def test_the_pause_grows_until_a_request_works() -> None:
    once = after(PAIR, *[BAD] * STRIKES)
    back = replace(once, state=OK, last_ok=1000.5, retry_at=None)  # its probe worked
    twice = after(back, *[BAD] * STRIKES)
    assert (twice.retry_at or 0) - 50 > 1.5 * FIRST_PAUSE_S
    assert after(back, GOOD).quarantines == 0


def test_requests_from_before_it_last_worked_do_not_count() -> None:
    assert after(PAIR, *[BAD] * 9, received_at=999.0) == PAIR


@pytest.mark.parametrize("state", [state for state in STATES if state not in (OK, PAUSED)])
def test_a_pair_out_of_rotation_is_its_probes_business(state: str) -> None:
    assert state in (UNTRIED, PROBING, FAILING, QUARANTINED, INCOMPATIBLE)
    pair = replace(PAIR, state=state)
    assert after(pair, GOOD, *[BAD] * 9) is pair


def test_a_success_is_noted_now_and_then_only() -> None:
    assert after(PAIR, GOOD) is PAIR
    assert after(PAIR, GOOD, wall=1000.0 + FRESH_S).last_ok == 1000.0 + FRESH_S
