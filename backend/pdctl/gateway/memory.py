"""What this router knows of instances from its own legs: the prompts sent, and their pace.

Law: it belongs to one start of an instance and is forgotten with it. It is kept only while a policy
asks for it, and each router worker has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pdctl.domain.table import RoutingTable, Target
from pdctl.gateway.holdings import Holdings
from pdctl.routing.facts import RequestFacts
from pdctl.routing.figures import Figures, Rate
from pdctl.routing.policy import Candidate
from pdctl.routing.prefix import Chain, PrefixIndex
from pdctl.routing.router import Route


@dataclass(slots=True)
class _Start:
    """One start of an instance."""

    generation: int
    prompts: PrefixIndex = field(default_factory=PrefixIndex)
    figures: Figures = field(default_factory=Figures)


class Memory:
    """By instance; asked and told by the dispatcher and by requests under way."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.holdings = Holdings(monotonic)
        self._starts: dict[str, _Start] = {}
        self._per_guess = Rate()
        """Tokens that engines counted for each that was guessed: there is one tokenizer."""

    def renew(self, table: RoutingTable) -> None:
        """Forget starts that the table no longer names."""
        named = {str(one.id): one.generation for one in table.targets}
        self._starts = {
            id_: one for id_, one in self._starts.items() if named.get(id_) == one.generation
        }
        self.holdings.renew(table)

    def of(self, target: Target) -> Figures:
        """The figures of a target's start."""
        return self._start(target).figures

    def counted(self, facts: RequestFacts, tokens: int) -> None:
        """An engine has counted a prompt."""
        if facts.guessed:
            self._per_guess.learn(tokens, facts.guessed)

    def read(self, facts: RequestFacts, prefix: Chain) -> RequestFacts:
        """The facts with what is asked of `informed`, and a guess in this model's tokens."""
        per_guess = self._per_guess.value or 1.0
        tokens = round(facts.guessed * per_guess) if facts.guessed else facts.prompt_tokens
        return replace(facts, prompt_tokens=tokens, prefix=prefix)

    def sent(self, route: Route, facts: RequestFacts) -> None:
        """The prompt is on its way: what follows may count on it, whether it is computed yet."""
        for target in route.targets:
            self._start(target).prompts.add(facts.prefix)
            if facts.chains:
                self.holdings.sent(target, facts)

    def informed(
        self, loads: Mapping[str, Candidate], targets: Iterable[Target], facts: RequestFacts,
        *, by_events: bool = False,
    ) -> dict[str, Candidate]:  # fmt: skip
        """The loads of `targets`, with all that is known of them and of this prompt."""
        found = {}
        for target in targets:
            start, load = self._start(target), loads.get(target.id) or Candidate(target.id)
            figures, cached = start.figures, start.prompts.cached(facts.prefix)
            if facts.guessed:
                cached = cached * facts.prompt_tokens // facts.guessed
            seen = self.holdings.cached(target, facts) if by_events else ""
            held, coming = (cached, 0) if isinstance(seen, str) else (sum(seen), seen[1])
            found[str(target.id)] = replace(
                load,
                cached=min(held, facts.prompt_tokens),
                remembered=min(cached, facts.prompt_tokens),
                by_events=not isinstance(seen, str),
                coming=coming,
                no_events=seen if isinstance(seen, str) else "",
                kv_full=target.kv_full,
                prefill_rate=figures.prefill.value,
                pull_rate=figures.pull.value,
                step_s=figures.step_s,
            )
        return found

    def _start(self, target: Target) -> _Start:
        start = self._starts.get(target.id)
        if start is None or start.generation < target.generation:
            start = self._starts[target.id] = _Start(target.generation)
        # a leg may outlive its start: what it has to say is of no use any more
        return start if start.generation == target.generation else _Start(target.generation)
