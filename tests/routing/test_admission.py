"""Requests that would miss their objective: refused or held back, and only where that is known."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.routing.boards import board

from pdctl.domain.ids import InstanceId
from pdctl.domain.topology import Mode, SloSpec
from pdctl.routing.admission import admit, patience_s, too_long
from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate
from pdctl.routing.router import Board, Refusal, Route, decide

FACTS = RequestFacts("/v1/completions", prompt_tokens=1000)
SLOS = (
    SloSpec("chat", ttft_ms=2000, itl_p99_ms=100),
    SloSpec("batch", ttft_ms=60_000),
    SloSpec("pace", tpot_ms=20),
)


def known(id_: str, **figures: float | None) -> Candidate:
    """By default 1000 tokens a second computed, 10 000 pulled, and steps of 10 ms."""
    base = {"prefill_rate": 1000.0, "pull_rate": 10_000.0, "step_s": 0.01}
    return replace(Candidate(InstanceId(id_)), **{**base, **figures})  # type: ignore[arg-type]


def on(*ids: str, **limits: Any) -> Board:
    return board(*ids, slos=SLOS, **{"slo": "chat", "admission": "refuse", **limits})


def ask(at: Board, *loads: Candidate, waited_s: float = 0.0, **facts: Any) -> Route | Refusal:
    asked, found = replace(FACTS, **facts), {str(one.id): one for one in loads}
    route = decide(asked, at, found, Random(0))
    return route if isinstance(route, Refusal) else admit(asked, at, found, route, waited_s)


def test_what_is_in_time_is_sent_and_says_what_is_expected() -> None:
    found = ask(on("p0", "d0"), known("p0", ahead=500), known("d0"))
    assert isinstance(found, Route)
    assert found.path == "pd"
    # 1.5 s of prefill and a step, 0.1 s of pull and a step
    words = "~1620 ms to the first token expected, the SLO chat allows 2000 ms"
    assert found.decode_why.endswith(words)


def test_who_has_nothing_to_compute_takes_what_comes() -> None:
    at = on("b0", mode=Mode.CHUNKED)
    assert isinstance(ask(at, known("b0", prefill_rate=1.0)), Route)
    assert isinstance(ask(at, known("b0", prefill_rate=1.0, ahead=1)), Refusal)


def test_what_would_be_late_is_refused_with_the_forecast() -> None:
    found = ask(on("p0", "d0", mode=Mode.CHUNKED), known("p0", ahead=8000), known("d0", ahead=8000))
    assert isinstance(found, Refusal)
    assert (found.status, found.reason, found.wait, found.held) == (429, "slo", False, False)
    assert found.message == ("~9010 ms to the first token expected, the SLO chat allows 2000 ms.")
    assert found.retry_after_s == 8  # in 7.01 s it would be in time


def test_in_a_queue_it_waits_while_that_could_help() -> None:
    at, loads = on("p0", "d0", admission="queue"), (known("p0", ahead=5000), known("d0", legs=9))
    first = ask(at, *loads)
    assert isinstance(first, Refusal)
    assert (first.wait, first.held) == (True, True)
    late = ask(at, *loads, waited_s=1.0)
    assert isinstance(late, Refusal)
    assert (late.wait, late.held) == (False, False)
    assert "with nothing before it, it would be late as well" in late.message
    assert isinstance(ask(at, known("p0"), known("d0"), waited_s=0.5), Route)


@pytest.mark.parametrize(
    "loads",
    [
        (),
        (known("p0", ahead=9000, prefill_rate=None), known("d0", prefill_rate=None)),
        (known("p0", ahead=9000, pull_rate=None), known("d0", pull_rate=None)),
    ],
)
def test_what_is_unknown_is_sent(loads: tuple[Candidate, ...]) -> None:
    at = on("p0", "d0")
    found = decide(FACTS, at, {str(one.id): one for one in loads}, Random(0))
    assert isinstance(found, Route)
    assert admit(FACTS, at, {str(one.id): one for one in loads}, found) is found


@pytest.mark.parametrize(
    ("limits", "named", "sent"),
    [
        ({}, "", False),
        ({}, "batch", True),
        ({}, "pace", True),
        ({"admission": "off"}, "", True),
        ({"slo": ""}, "", True),
        ({"slo": ""}, "chat", False),
        ({"slo": "gone"}, "", True),
    ],
)
def test_the_objective_is_the_requests_own_or_the_routers(
    limits: dict[str, Any], named: str, sent: bool
) -> None:
    found = ask(on("b0", mode=Mode.CHUNKED, **limits), known("b0", ahead=9000, legs=1), slo=named)
    assert isinstance(found, Route) is sent


def test_nobody_waits_past_the_objective() -> None:
    at = on("p0", "d0", queue_timeout_s=30.0).table
    assert patience_s(FACTS, at) == 2.0
    assert patience_s(replace(FACTS, slo="batch"), at) == 30.0
    assert too_long(FACTS, at, 2.0).reason == "slo"
    assert "allows no more to the first token" in too_long(FACTS, at, 2.0).message
    assert too_long(replace(FACTS, slo="batch"), at, 30.0).reason == ""


def test_a_late_handoff_is_left_out_when_decode_is_in_time() -> None:
    at, busy = on("p0", "d0"), known("p0", ahead=5000)
    found = ask(at, busy, known("d0"))
    assert isinstance(found, Route)
    assert (found.path, found.path_reason, found.decode.id) == ("aggregated", "slo", "d0")
    assert "~6120 ms to the first token with a handoff, ~1010 ms without one" in found.decode_why
    # with streams on decode that it would hold up for a second there is no good way
    held_up = ask(on("p0", "d0", admission="off"), busy, known("d0", legs=1))
    assert isinstance(held_up, Route)
    assert held_up.path == "pd"
    unbound = ask(on("p0", "d0", slo="pace"), busy, known("d0"))
    assert isinstance(unbound, Route)
    assert unbound.path == "pd"


def test_a_short_prompt_is_handed_over_when_it_would_hold_up_streams() -> None:
    at, d0 = on("p0", "d0", pd_min_prompt_tokens=5000), known("d0", legs=3)
    found = ask(at, known("p0"), d0)
    assert isinstance(found, Route)
    assert (found.path, found.path_reason) == ("pd", "")
    assert "~1000 tokens would hold up the streams on d0 for ~1010 ms" in found.prefill_why
    for stays in (
        ask(at, known("p0"), known("d0")),
        ask(at, known("p0"), d0, prompt_tokens=50),
        ask(replace(at, table=replace(at.table, pairs=()), pairs=()), known("p0"), d0),
    ):
        assert isinstance(stays, Route)
        assert stays.path == "aggregated"
    slow = ask(
        on("p0", "d0", pd_min_prompt_tokens=5000, slo="pace"), known("p0"), replace(d0, step_s=0.03)
    )
    assert isinstance(slow, Route)
    assert "d0 takes 30.0 ms a token already, pace allows 20 ms" in slow.prefill_why


@given(
    ahead=st.integers(0, 100_000), tokens=st.integers(1, 100_000), waited=st.floats(0, 100),
    rate=st.floats(1, 1e6), way=st.sampled_from(["queue", "refuse"]),
)  # fmt: skip
def test_more_work_or_waiting_never_opens_a_closed_door(
    ahead: int, tokens: int, waited: float, rate: float, way: str
) -> None:
    at = on("b0", mode=Mode.CHUNKED, admission=way)
    one = known("b0", prefill_rate=rate)
    now = ask(at, replace(one, ahead=ahead), waited_s=waited, prompt_tokens=tokens)
    if isinstance(now, Route):
        assert isinstance(ask(at, one, prompt_tokens=tokens), Route)
        return
    assert now.status == 429
    assert 1 <= now.retry_after_s <= 60
    later = ask(at, replace(one, ahead=ahead + 1), waited_s=waited + 1, prompt_tokens=tokens)
    assert isinstance(later, Refusal)
    assert not (later.wait and not now.wait)
