"""What each start of an instance holds by its own KV events, as the policies are told of it.

Law: it belongs to one start of an instance and is forgotten with it. `following` fills it in; a
policy bench may do so itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pdctl.domain.kv_events import KvFollowed
from pdctl.domain.table import RoutingTable, Target
from pdctl.routing.blocks import UNHEARD, Holding, chain_of_ids
from pdctl.routing.facts import RequestFacts
from pdctl.routing.prefix import Chain


class Holdings:
    """By instance; one for each router process."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._starts: dict[str, tuple[int, Holding]] = {}

    def open(self, target: Target) -> Holding:
        """Begin anew with this start."""
        holding = Holding()
        self._starts[target.id] = target.generation, holding
        return holding

    def renew(self, table: RoutingTable) -> None:
        """Forget starts that the table no longer names."""
        named = {str(one.id): one.generation for one in table.targets}
        self._starts = {id_: one for id_, one in self._starts.items() if named.get(id_) == one[0]}

    def clear(self) -> None:
        """Nobody asks any more."""
        self._starts = {}

    def of(self, target: Target) -> Holding | None:
        """What this start holds; None while nobody follows it."""
        generation, holding = self._starts.get(target.id, (None, None))
        return holding if generation == target.generation else None

    def told(self) -> dict[str, KvFollowed]:
        """By instance, for whoever looks on."""
        return {id_: holding.told() for id_, (_, holding) in self._starts.items()}

    def read(self, facts: RequestFacts, ids: list[int], salt: str) -> RequestFacts:
        """The facts of a prompt whose token ids are known."""
        sizes = {holding.block_size for _, holding in self._starts.values()} - {0}
        chains = tuple((size, chain_of_ids(ids, size, salt)) for size in sorted(sizes))
        return replace(facts, prompt_tokens=len(ids), chains=chains)

    def sent(self, target: Target, facts: RequestFacts) -> None:
        """The prompt is on its way there: what follows may count on it."""
        holding = self.of(target)
        if holding is not None and (chain := _chain(holding, facts)):
            holding.sent(chain, self._now())

    def cached(self, target: Target, facts: RequestFacts) -> tuple[int, int] | str:
        """(tokens that it holds, tokens to come after these), or why its events do not tell."""
        holding = self.of(target)
        if holding is None or holding.why_not:
            return UNHEARD if holding is None else holding.why_not
        if facts.no_tokens:
            return facts.no_tokens
        return holding.cached(_chain(holding, facts), self._now())


def _chain(holding: Holding, facts: RequestFacts) -> Chain:
    """The prompt in blocks of its size; empty while it has told of none."""
    return dict(facts.chains).get(holding.block_size, ())
