"""Each instance in turn: the one whose last leg is longest ago."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Chance, Choice


class RoundRobin:
    """Needs no state of its own: the turn is read from `Candidate.last_chosen`."""

    name = "round_robin"

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The longest unused; those never used go first, by id."""
        if not candidates:
            return None
        next_ = min(candidates, key=lambda one: (one.last_chosen, one.id))
        return Choice(next_.id, f"next in turn of {len(candidates)}")


POLICY = RoundRobin()
