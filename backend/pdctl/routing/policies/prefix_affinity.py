"""The instance that should hold most of the prompt's KV already, while its work allows.

The prompt's beginning is looked up in what this router sent where (`routing.prefix`). A prompt that
nobody holds goes to the least loaded. An instance with much more than its share gives way, so a
beginning that all share spreads over the fleet.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Chance, Choice, least, legs_bound, work


class PrefixAffinity:
    """Longest known beginning first; ties go to the least loaded."""

    name = "prefix_affinity"
    wants_history = True

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The best cached whose legs are within bounds, else the least loaded."""
        if not candidates:
            return None
        count, prompt = len(candidates), facts.prompt_tokens
        bound = legs_bound(candidates)
        top = max(one.cached for one in candidates)
        within = [one for one in candidates if one.legs < bound] or candidates
        most = max(one.cached for one in within)
        best = least([one for one in within if one.cached == most])
        if most:
            words = f"~{most} of ~{prompt} prompt tokens cached, {work(best)}"
        else:
            words = f"none of ~{prompt} prompt tokens cached; least loaded of {count}: {work(best)}"
        if most < top:
            words += f"; one with ~{top} cached has {bound} legs or more"
        return Choice(best.id, words)


POLICY = PrefixAffinity()
