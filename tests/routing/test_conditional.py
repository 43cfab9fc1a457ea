"""A handoff that is possible is not always worth it; the route says which way was shorter."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.routing.boards import board

from pdctl.domain.ids import InstanceId
from pdctl.domain.topology import Mode
from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate
from pdctl.routing.router import Avoid, Board, Refusal, Route, decide

FACTS = RequestFacts("/v1/completions", prompt_tokens=1000)


def known(id_: str, **figures: float) -> Candidate:
    return replace(Candidate(InstanceId(id_)), **figures)  # type: ignore[arg-type]


def ask(on: Board, *loads: Candidate, tokens: int = 1000, avoid: Avoid | None = None) -> Route:
    facts = replace(FACTS, prompt_tokens=tokens)
    found = decide(facts, on, {one.id: one for one in loads}, Random(0), avoid)
    assert isinstance(found, Route), found
    return found


@pytest.mark.parametrize(
    ("tokens", "cached", "reason"),
    [(999, 0, "short_prompt"), (1000, 0, ""), (5000, 4001, "short_prompt"), (5000, 4000, "")],
)
def test_what_is_left_to_compute_decides(tokens: int, cached: int, reason: str) -> None:
    on = board("p0", "d0", pd_min_prompt_tokens=1000)
    found = ask(on, known("d0", cached=cached), tokens=tokens)
    assert found.path_reason == reason
    assert found.path == ("aggregated" if reason else "pd")
    assert found.decode.id == "d0"
    assert ("a handoff is for 1000 or more" in found.decode_why) is bool(reason)


def test_all_are_handed_over_by_default() -> None:
    assert ask(board("p0", "d0"), tokens=0).path == "pd"


def test_the_decode_instance_that_is_chosen_is_the_one_that_counts() -> None:
    on = board("p0", "d0", "d1", pd_min_prompt_tokens=1000)
    cached = known("d0", cached=4900, tokens=9999)
    assert ask(on, cached, tokens=5000).path == "pd"
    affine = board("p0", "d0", "d1", pd_min_prompt_tokens=1000, decode_policy="prefix_affinity")
    found = ask(affine, cached, tokens=5000)
    assert (found.path_reason, found.decode.id) == ("short_prompt", "d0")


def test_a_short_prompt_needs_no_room_on_prefill() -> None:
    on = board("p0", "d0", pd_min_prompt_tokens=1000, max_inflight_per_instance=2)
    assert ask(on, known("p0", legs=2), tokens=10).path_reason == "short_prompt"
    full = decide(
        replace(FACTS, prompt_tokens=10), on, {"d0": known("d0", legs=2)}, Random(0), None
    )
    assert isinstance(full, Refusal)
    assert full.wait


def test_a_retry_of_a_short_prompt_goes_elsewhere() -> None:
    on = board("p0", "d0", "d1", pd_min_prompt_tokens=1000)
    found = ask(on, tokens=10, avoid=Avoid(frozenset({"d0"})))
    assert (found.path_reason, found.decode.id) == ("short_prompt", "d1")


def test_in_chunked_mode_nothing_is_conditional() -> None:
    on = board("p0", "d0", mode=Mode.CHUNKED, pd_min_prompt_tokens=1000)
    assert ask(on, tokens=10).path == "chunked"


def test_prefill_that_is_busy_is_passed_over_by_the_cost_policy_only() -> None:
    loads = (
        known("p0", ahead=9000, prefill_rate=1000.0),
        known("d0", pull_rate=100_000.0),
    )
    found = ask(board("p0", "d0", prefill_policy="cost"), *loads)
    assert (found.path, found.path_reason) == ("aggregated", "prefill_busy")
    assert found.prefill is None
    assert "~1000 ms to the first token without a handoff, p0 has ~9000 tokens" in found.decode_why
    assert ask(board("p0", "d0"), *loads).path == "pd"


@pytest.mark.parametrize(
    "loads",
    [
        (known("p0", ahead=200, prefill_rate=1000.0), known("d0", pull_rate=100_000.0)),
        (known("p0", ahead=9000), known("d0", pull_rate=100_000.0)),
        (
            known("p0", ahead=9000, prefill_rate=1000.0),
            known("d0", ahead=8500, pull_rate=100_000.0),
        ),
    ],
    ids=["too little to win", "rate unknown", "decode busier"],
)
def test_a_handoff_is_left_out_only_for_a_known_gain(loads: tuple[Candidate, ...]) -> None:
    assert ask(board("p0", "d0", prefill_policy="cost"), *loads).path == "pd"


@settings(max_examples=60, deadline=None)
@given(
    worth=st.integers(0, 2000),
    tokens=st.integers(0, 3000),
    cached=st.integers(0, 3000),
    ahead=st.integers(0, 99_999),
    policy=st.sampled_from(["cost", "prefix_affinity", "least_loaded"]),
)
def test_every_way_is_explained(
    worth: int, tokens: int, cached: int, ahead: int, policy: str
) -> None:
    on = board(
        "p0", "d0", "d1", pd_min_prompt_tokens=worth, prefill_policy=policy, decode_policy=policy
    )
    found = ask(
        on,
        known("p0", ahead=ahead, prefill_rate=1000.0),
        known("d0", cached=min(cached, tokens), pull_rate=9000.0),
        tokens=tokens,
    )
    assert found.decode_why
    assert (found.prefill is None) is bool(found.path_reason)
    if found.prefill is not None:
        assert found.prefill_why
