"""The instance whose own KV events say that it holds most of the prompt, while its work allows.

Where events say nothing (none published, a gap not filled yet, tokens unknown) the router's history
stands in, and the reason says so. An instance with much more than its share gives way, as under
`prefix_affinity`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Chance, Choice, least, legs_bound, work


class KvEvents:
    """Longest held beginning first; of equals those that are sure, then the least loaded."""

    name = "kv_events"
    wants_history = True
    wants_events = True

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The one that holds most, of those whose legs are within bounds."""
        if not candidates:
            return None
        bound = legs_bound(candidates)
        top = max(one.cached for one in candidates)
        within = [one for one in candidates if one.legs < bound] or candidates
        best = least(_alike(within))
        words = f"{_held(best, facts)}, {work(best)}"
        if not best.cached and not best.remembered:
            words = f"{_held(best, facts)}; least loaded of {len(candidates)}: {work(best)}"
        if best.cached < top:
            words += f"; one with {top} cached has {bound} legs or more"
        return Choice(best.id, words)


def _alike(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that are equally good: what is sure is better than a guess of the same length.

    What is in no full block yet is told by history only: it keeps a conversation together.
    """
    best = max((one.cached, one.by_events, one.remembered) for one in candidates)
    return [one for one in candidates if (one.cached, one.by_events, one.remembered) == best]


def _held(one: Candidate, facts: RequestFacts) -> str:
    cached = one.cached - one.coming or "none"
    if one.by_events:
        coming = f" and {one.coming} sent there just now" if one.coming else ""
        return f"{cached} of {facts.prompt_tokens} tokens cached by its own events{coming}"
    why = one.no_events or "its KV events are not read"
    return f"~{cached} of ~{facts.prompt_tokens} tokens cached by this router's history ({why})"


POLICY = KvEvents()
