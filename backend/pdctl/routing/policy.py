"""What a routing policy is: candidates in, one of them out, with the reason in words.

A policy never sees clients, URLs or engine metrics; what it may weigh is in `Candidate`. Candidates
have passed every filter (accepting, not suspect, with room) before a policy is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from pdctl.domain.ids import InstanceId
from pdctl.routing.facts import RequestFacts

MOST = 1.5
"""Times the mean of open legs that an instance may have for its cache's sake."""
FREE = 4
"""Legs that are never too many: a mean of nearly nothing binds nobody."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that could take the leg now. Tokens are estimated as `facts` estimates them.

    What follows `last_chosen` is filled in only for policies with `wants_history`; a figure that
    has not been measured is None.
    """

    id: InstanceId
    legs: int = 0
    """Legs open or reserved on it."""
    tokens: int = 0
    """Estimated prompt tokens of those legs."""
    last_chosen: int = 0
    """Position of its last leg in the router's count of all legs; 0 when it never had one."""
    ahead: int = 0
    """Of those tokens, what it has still to compute (at most): the queue before a new prompt."""
    cached: int = 0
    """Tokens of this request's prompt whose KV it should hold, by this router's own history."""
    computes: int = 0
    """Prompt tokens that this leg would have it compute."""
    pulls: int = 0
    """Prompt tokens whose KV this leg would have it pull."""
    by_events: bool = False
    """`cached` is what the instance's own KV events say, not this router's history."""
    coming: int = 0
    """Of `cached`, what was sent there and is not told by its events yet."""
    remembered: int = 0
    """Tokens that it should hold by this router's history; where events tell, beside `cached`."""
    no_events: str = ""
    """Why they say nothing, in words; only for policies with `wants_events`."""
    kv_full: bool = False
    """Its engine said, at most a few seconds ago, that nearly all of its KV is in use."""
    prefill_rate: float | None = None
    """Prompt tokens that it computes in a second."""
    pull_rate: float | None = None
    """Prompt tokens whose KV it pulls in a second."""
    step_s: float | None = None
    """Seconds between two tokens of one stream."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen instance and why, in words for an operator."""

    id: InstanceId
    reason: str


class Chance(Protocol):
    """Random numbers as an argument (`random.Random` fits)."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class Policy(Protocol):
    """A way to choose.

    A policy that weighs the later fields of `Candidate` has `wants_history = True`: prompts are
    then hashed and legs measured. One with `wants_events = True` as well is told what instances
    hold by their own KV events. One that can foretell a time to first token has
    `expected_s(candidates)`, in seconds by id: a router may then prefill where the answer is.
    """

    name: str

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """One of `candidates`, which is left as it was; None only when it is empty."""
        ...


def least(candidates: Iterable[Candidate]) -> Candidate:
    """The one with the least work: prompt tokens, then legs, then longest unused, then by id."""
    return min(candidates, key=lambda one: (one.tokens, one.legs, one.last_chosen, one.id))


def legs_bound(candidates: Sequence[Candidate]) -> int:
    """Legs from which on an instance gives way, however much of a prompt it holds."""
    return max(FREE, ceil(MOST * (1 + sum(one.legs for one in candidates)) / len(candidates)))


def work(one: Candidate) -> str:
    """Its work in words."""
    return f"{one.legs} {'leg' if one.legs == 1 else 'legs'}, ~{one.tokens} tokens in flight"
