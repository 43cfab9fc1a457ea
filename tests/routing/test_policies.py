"""The laws that every policy keeps, and what each one is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl import plugins
from pdctl.domain.ids import InstanceId
from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Choice, Policy

NAMES = plugins.names(plugins.POLICIES)
FACTS = RequestFacts("/v1/completions", prompt_tokens=100)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.sampled_from([InstanceId(f"d{i}") for i in range(9)]),
        legs=st.integers(0, 9),
        tokens=st.integers(0, 9999),
        last_chosen=st.integers(0, 99),
        ahead=st.integers(0, 9999),
        cached=st.integers(0, 200),
        coming=st.just(0),
        remembered=st.integers(0, 200),
        by_events=st.booleans(),
        no_events=st.sampled_from(["", "publishes none"]),
        kv_full=st.booleans(),
        computes=st.integers(0, 200),
        pulls=st.integers(0, 200),
        prefill_rate=st.none() | st.floats(0.001, 1e6),
        pull_rate=st.none() | st.floats(0.001, 1e9),
        step_s=st.none() | st.floats(0, 10),
    ),
    unique_by=lambda one: one.id,
    max_size=9,
)


@cache
def load(name: str) -> Policy:
    policy: Policy = plugins.load(plugins.POLICIES, name)
    return policy


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(candidates=CANDIDATES, seed=st.integers(), session=st.sampled_from(["", "s", "\udc80"]))
def test_a_policy_is_pure_total_and_explains_itself(
    name: str, candidates: list[Candidate], seed: int, session: str
) -> None:
    policy, before = load(name), list(candidates)
    facts = replace(FACTS, session=session)
    choice = policy.choose(candidates, facts, Random(seed))
    assert choice == policy.choose(candidates, facts, Random(seed))
    assert candidates == before
    assert policy.name == name
    if not candidates:
        assert choice is None
    else:
        assert choice is not None
        assert choice.id in {one.id for one in candidates}
        assert choice.reason


def test_least_loaded_weighs_tokens_then_legs_then_turn() -> None:
    policy = load("least_loaded")

    def pick(*candidates: Candidate) -> str:
        choice = policy.choose(candidates, FACTS, Random(0))
        assert choice is not None
        return choice.id

    a, b = InstanceId("a"), InstanceId("b")
    assert pick(Candidate(a, 1, 900), Candidate(b, 5, 100)) == "b"
    assert pick(Candidate(a, 2, 100), Candidate(b, 1, 100)) == "b"
    assert pick(Candidate(a, 1, 100, 7), Candidate(b, 1, 100, 3)) == "b"
    assert pick(Candidate(b), Candidate(a)) == "a"


def test_round_robin_takes_the_longest_unused() -> None:
    policy = load("round_robin")
    turns: dict[str, int] = {}
    order = []
    for turn in range(1, 7):
        candidates = [Candidate(InstanceId(i), last_chosen=turns.get(i, 0)) for i in "abc"]
        choice = policy.choose(candidates, FACTS, Random(0))
        assert choice is not None
        turns[choice.id] = turn
        order.append(choice.id)
    assert order == ["a", "b", "c", "a", "b", "c"]


def some(*ids: str, **legs: int) -> list[Candidate]:
    return [Candidate(InstanceId(one), legs=legs.get(one, 0)) for one in (*ids, *legs)]


def test_power_of_two_never_takes_the_most_loaded() -> None:
    candidates = some(a=1, b=2, c=3, d=4)
    chosen = Counter[str](
        choice.id
        for seed in range(200)
        if (choice := load("power_of_two").choose(candidates, FACTS, Random(seed)))
    )
    assert set(chosen) == {"a", "b", "c"}
    assert chosen["a"] > chosen["b"] > chosen["c"]


def home(session: str, candidates: list[Candidate]) -> str:
    choice = load("session_affinity").choose(candidates, replace(FACTS, session=session), Random(0))
    assert choice is not None
    return choice.id


def test_a_session_stays_and_a_resize_moves_few() -> None:
    sessions = [f"session-{number}" for number in range(400)]
    four, five = some(*"abcd"), some(*"abcde")
    before = {one: home(one, four) for one in sessions}
    assert before == {one: home(one, list(reversed(four))) for one in sessions}
    after = {one: home(one, five) for one in sessions}
    moved = [one for one in sessions if before[one] != after[one]]
    assert {after[one] for one in moved} == {"e"}
    assert 40 < len(moved) < 130
    assert all(count > 60 for count in Counter(before.values()).values())


def test_a_home_with_too_much_work_gives_way_and_says_so() -> None:
    where = home("s", some("a", "b"))
    other = "b" if where == "a" else "a"
    assert home("s", some(**{where: 3, other: 0})) == where
    busy = some(**{where: 20, other: 2})
    choice = load("session_affinity").choose(busy, replace(FACTS, session="s"), Random(0))
    assert choice is not None
    assert choice.id == other
    assert f"home {where} has 20 legs" in choice.reason


def test_without_a_session_the_least_loaded_is_taken() -> None:
    assert home("", some(a=2, b=1, c=3)) == "b"


def cost(*candidates: Candidate) -> Choice:
    choice = load("cost").choose(candidates, FACTS, Random(0))
    assert choice is not None
    return choice


def one(id_: str, **more: Any) -> Candidate:
    return Candidate(InstanceId(id_), **more)


def test_cost_takes_the_shortest_wait_for_a_first_token() -> None:
    slow = one("slow", computes=1000, prefill_rate=1000.0)
    busy = one("busy", computes=1000, prefill_rate=4000.0, ahead=1000)
    choice = cost(slow, busy)
    assert choice.id == "busy"
    assert "~500 ms to the first token expected: ~1000 tokens ahead" in choice.reason
    known = one("known", computes=100, cached=900, prefill_rate=1000.0)
    assert cost(slow, busy, known).id == "known"


def test_cost_takes_the_median_for_what_is_unknown_and_says_so() -> None:
    new = one("new", computes=1000)
    fast = one("fast", computes=1000, prefill_rate=4000.0, ahead=9000)
    choice = cost(new, fast, one("slow", computes=1000, prefill_rate=1000.0, ahead=9000))
    assert choice.id == "new"
    assert "rate unknown, the median is taken" in choice.reason
    assert "~400 ms" in choice.reason
    assert "nothing measured yet" in cost(new, one("other", computes=1000, legs=3)).reason


def test_cost_prefers_room_among_decoders_that_are_about_as_good() -> None:
    near = {"pulls": 1000, "pull_rate": 10_000.0}
    full = one("full", tokens=9000, step_s=0.010, **near)
    roomy = one("roomy", tokens=100, step_s=0.020, **near)
    assert cost(full, roomy).id == "roomy"
    far = one("far", pulls=1000, pull_rate=1000.0, step_s=0.010)
    assert cost(full, far).id == "full"


def test_cost_passes_over_full_ones_while_others_have_room() -> None:
    full = one("full", kv_full=True, pulls=10, pull_rate=1e6)
    roomy = one("roomy", pulls=10, pull_rate=1e4)
    assert cost(full, roomy).id == "roomy"
    assert "1 with full KV passed over" in cost(full, roomy).reason
    assert cost(full).id == "full"


def test_kv_events_go_by_what_is_held_then_by_what_is_sure() -> None:
    a, b, c = (InstanceId(name) for name in "abc")
    facts = replace(FACTS, prompt_tokens=1024)

    def pick(*candidates: Candidate) -> Choice:
        choice = load("kv_events").choose(candidates, facts, Random(0))
        assert choice is not None
        return choice

    sure = Candidate(b, cached=768, by_events=True, tokens=900)
    guess = Candidate(a, cached=768, no_events="had a gap")
    assert pick(guess, sure, Candidate(c)) == Choice(
        b, "768 of 1024 tokens cached by its own events, 0 legs, ~900 tokens in flight"
    )
    said = pick(replace(sure, cached=896, coming=128)).reason
    assert said.startswith("768 of 1024 tokens cached by its own events and 128 sent there just ")
    talk = Candidate(a, legs=2, by_events=True, remembered=64)
    said = pick(talk, Candidate(b, by_events=True)).reason
    assert said == "none of 1024 tokens cached by its own events, 2 legs, ~0 tokens in flight"
    longer = replace(guess, cached=800)
    said = pick(longer, sure).reason
    assert said.startswith("~800 of ~1024 tokens cached by this router's history (had a gap), ")
    busy = pick(replace(sure, legs=9), Candidate(a, by_events=True))
    assert busy.id == "a"
    assert busy.reason.startswith("none of 1024 tokens cached by its own events; least loaded of 2")
    assert busy.reason.endswith("; one with 768 cached has 8 legs or more")
