"""How long until a leg's first token, of what this router has measured.

    expected = (tokens ahead + uncached prompt tokens) / prefill rate
             + pulled tokens / pull rate + one step

What one instance has not shown yet is taken to be the median of the others; what none has shown is
unknown, and then nothing is foretold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from pdctl.routing.policy import Candidate

Figure = Callable[[Candidate], float | None]


def expected_s(candidates: Sequence[Candidate]) -> Mapping[str, float]:
    """Seconds to the first token by id; empty while not even a median is known."""
    compute = _medianed(candidates, lambda one: one.prefill_rate)
    pull = _medianed(candidates, lambda one: one.pull_rate)
    step = _medianed(candidates, lambda one: one.step_s)
    found = {}
    for one in candidates:
        waits = one.ahead + one.computes
        if (waits and not compute) or (one.pulls and not pull):
            return {}
        seconds = waits / compute[one.id] if waits else 0.0
        if one.pulls:
            seconds += one.pulls / pull[one.id]
        found[str(one.id)] = seconds + step.get(one.id, 0.0)
    return found


def _medianed(candidates: Sequence[Candidate], figure: Figure) -> dict[str, float]:
    """A figure by id, the median where it is unknown; empty when it is unknown of all."""
    known = [value for one in candidates if (value := figure(one)) is not None]
    if not known:
        return {}
    middle = median(known)
    return {str(one.id): middle if (value := figure(one)) is None else value for one in candidates}
