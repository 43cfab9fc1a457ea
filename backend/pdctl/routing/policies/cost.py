"""The shortest expected time to the first token, of what this router has measured (`forecast`).

A prefill leg pulls nothing; a decode leg computes nothing, and stays long after its first token. So
a decode leg may wait somewhat longer for it where there is more room: of those that are about as
good, the one with the fewest tokens in flight is taken. Full ones are taken only when all are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdctl.routing.facts import RequestFacts
from pdctl.routing.forecast import expected_s
from pdctl.routing.policy import Candidate, Chance, Choice, least, work

CLOSE, ROOMY = 1.05, 1.5
"""Times the shortest that is as good, of legs that compute and of legs that only decode: what is
closer than that is noise, and would herd everyone to one instance."""


class Cost:
    """What one instance has not shown yet is taken to be the median of the others."""

    name = "cost"
    wants_history = True

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The shortest expected; while nothing is measured, the least loaded."""
        if not candidates:
            return None
        full = len(candidates)
        candidates = [one for one in candidates if not one.kv_full] or candidates
        full -= len(candidates)
        expected = self.expected_s(candidates)
        if not expected:
            best = least(candidates)
            return Choice(best.id, f"nothing measured yet; least loaded: {work(best)}")
        slack = CLOSE if any(one.computes for one in candidates) else ROOMY
        bound = slack * min(expected.values())
        best = least([one for one in candidates if expected[one.id] <= bound])
        passed = f"; {full} with full KV passed over" if full else ""
        return Choice(best.id, _words(best, expected[best.id]) + passed)

    def expected_s(self, candidates: Sequence[Candidate]) -> Mapping[str, float]:
        """Seconds to the first token by id; empty while not even a median is known."""
        return expected_s(candidates)


def _words(one: Candidate, expected: float) -> str:
    parts = [f"~{one.ahead} tokens ahead"] if one.ahead else []
    if one.computes or not one.pulls:
        rate = "unknown, the median is taken"
        if one.prefill_rate is not None:
            rate = f"~{one.prefill_rate:.0f} tokens/s"
        cached = f" ({one.cached} cached)" if one.cached else ""
        parts.append(f"~{one.computes} to compute{cached}, rate {rate}")
    if one.pulls:
        parts.append(f"KV of ~{one.pulls} to pull")
    if one.step_s is not None and not one.computes:
        parts.append(f"{one.step_s * 1000:.1f} ms a step")
    return f"~{expected * 1000:.0f} ms to the first token expected: {', '.join(parts)}; {work(one)}"


POLICY = Cost()
