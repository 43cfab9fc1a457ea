"""The instance with the least work: prompt tokens in flight, then legs, then longest unused."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Chance, Choice, least, work


class LeastLoaded:
    """Weighs estimated prompt tokens first: one long prompt outweighs many short ones."""

    name = "least_loaded"

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The least loaded; ties go to the longest unused, then by id: the same every time."""
        if not candidates:
            return None
        if len(candidates) == 1:
            return Choice(candidates[0].id, "the only candidate")
        best = least(candidates)
        return Choice(best.id, f"least loaded of {len(candidates)}: {work(best)}")


POLICY = LeastLoaded()
