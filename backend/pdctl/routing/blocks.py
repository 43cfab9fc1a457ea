"""Which beginnings of prompts an instance holds, by its own events: token ids to known blocks.

Blocks are named anew, by a hash over their token ids and all that comes before: the engine's own
hash function does not matter. Law: what is not sure is not held. A message that is missing may have
removed blocks, so what was known is forgotten unless the engine sends it again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import takewhile

from pdctl.domain.kv_events import (
    AllCleared,
    BlockEvent,
    BlocksRemoved,
    BlocksStored,
    EventBatch,
    KvFollowed,
    salted,
)
from pdctl.routing.prefix import Chain

COMING_S = 10.0
"""Seconds that a prompt which was sent counts as coming, until its events are there."""
MOST_COMING = 8192
"""Blocks that may be coming before those that did not come are looked for."""
MOST_IDS = 262_144
"""Token ids of a prompt that are compared, so that no prompt takes long."""
_START = 0
UNHEARD = "has not been asked for its KV events yet"
"""Why a holding that was just opened says nothing."""


def chain_of_ids(ids: Sequence[int], block_size: int, salt: str = "") -> Chain:
    """The names of a prompt's full blocks; the last token is computed anew, so never counted."""
    last, chain = _START, []
    key = salted(salt) if salt else ""
    compared = min(len(ids) - 1, MOST_IDS)
    for at in range(0, compared // block_size * block_size, block_size):
        last = hash((last, tuple(ids[at : at + block_size]), key))
        chain.append(last)
        key = ""
    return tuple(chain)


class Holding:
    """What one start of an instance holds, and how far its events were followed."""

    def __init__(self) -> None:
        self.why_not = UNHEARD
        """Why it says nothing now; empty while it does."""
        self.block_size = 0
        """Tokens of a block; 0 until one was stored."""
        self.next_seq = 0
        """The message that comes next."""
        self.gaps = self.replays = self.forgotten = 0
        self.last_event: float | None = None
        self._names: dict[Hashable, int] = {}
        self._held: set[int] = set()
        self._coming: dict[int, float] = {}
        self._last_at = float("-inf")

    def __len__(self) -> int:
        return len(self._held)

    def cached(self, chain: Sequence[int], now: float) -> tuple[int, int]:
        """Tokens at the beginning of this prompt whose KV it holds; tokens after that to come."""
        held = sum(1 for _ in takewhile(self._held.__contains__, chain))
        coming = 0
        for block in chain[held:]:
            if block not in self._held and self._coming.get(block, now) <= now:
                break
            coming += 1
        return held * self.block_size, coming * self.block_size

    def sent(self, chain: Sequence[int], now: float) -> None:
        """It was sent this prompt, and will say so once it computes it."""
        if len(self._coming) > MOST_COMING:
            self._coming = {block: end for block, end in self._coming.items() if end > now}
        self._coming |= dict.fromkeys(chain, now + COMING_S)

    def take(self, batch: EventBatch) -> bool:
        """Note a message; False when some before it are missing, and it was not noted."""
        if batch.seq < self.next_seq and batch.at <= self._last_at:
            return True  # it was sent again
        if batch.seq < self.next_seq:  # its publisher counts anew: nothing of before is left
            self.forget()
            self.next_seq = 0
        if batch.seq > self.next_seq:
            return False
        self._note(batch)
        return True

    def refill(self, batches: Iterable[EventBatch]) -> None:
        """Note the messages that were sent again; a gap among them costs all that was known."""
        for batch in batches:
            if not self.take(batch):
                self.skip(batch)

    def skip(self, batch: EventBatch) -> None:
        """Go on with this message, without those before it: what was known may be gone."""
        if self.next_seq:
            self.forgotten += 1
        self.forget()
        self._note(batch)

    def forget(self) -> None:
        """It is known to hold nothing."""
        self._names.clear()
        self._held.clear()
        self._coming.clear()

    def told(self) -> KvFollowed:
        """For whoever looks on."""
        return KvFollowed(
            self.why_not, len(self), self.gaps, self.replays, self.forgotten, self.last_event
        )

    def _note(self, batch: EventBatch) -> None:
        self.next_seq, self._last_at = batch.seq + 1, batch.at
        for event in batch.events:
            self.last_event = batch.at
            self._apply(event)

    def _apply(self, event: BlockEvent) -> None:
        match event:
            case BlocksStored():
                self._store(event)
            case BlocksRemoved():
                for one in event.hashes:
                    self._held.discard(self._names.pop(one, _START))
            case AllCleared():
                self.forget()

    def _store(self, event: BlocksStored) -> None:
        last = _START if event.parent is None else self._names.get(event.parent)
        if last is None:
            return  # a continuation of what was never told
        size = event.block_size
        self.block_size = max(size, self.block_size)
        for number, one in enumerate(event.hashes):
            tokens = event.tokens[number * size : (number + 1) * size]
            key = event.keys[number] if event.keys else ""
            last = hash((last, tokens, key))
            self._names[one] = last
            self._coming.pop(last, None)
            self._held.add(last)
