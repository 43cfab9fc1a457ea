"""The less loaded of two drawn by lot (Mitzenmacher, "The Power of Two Choices", 1996).

Router workers do not see each other's work. When all of them take the one instance that looks
emptiest, it is flooded; two drawn by lot spread them, and are nearly as even.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Chance, Choice, least, work


class PowerOfTwo:
    """Looks at two instances, however many there are."""

    name = "power_of_two"

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The less loaded of two; ties go to the longest unused, then by id."""
        count = len(candidates)
        if count < 2:
            return Choice(candidates[0].id, "the only candidate") if candidates else None
        first = int(rng.random() * count)
        second = (first + 1 + int(rng.random() * (count - 1))) % count
        two = candidates[first], candidates[second]
        best = least(two)
        other = two[1] if best is two[0] else two[0]
        words = f"less loaded of two drawn from {count}: {work(best)}; {other.id} has {work(other)}"
        return Choice(best.id, words)


POLICY = PowerOfTwo()
