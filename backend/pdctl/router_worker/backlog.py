"""Facts that the control plane has not yet put away: numbered, resent, bounded.

Law: a fact leaves when it is acknowledged. When there is no more room the oldest goes and is
counted: requests are served whether or not anybody listens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from pdctl.domain.handoff import RequestRecord, Suspect

Fact = RequestRecord | Suspect
CAPACITY = 20_000


class Backlog:
    """One writer; one reader at a time, each beginning with all that is kept."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._kept: dict[int, Fact] = {}
        self._unsent: deque[int] = deque()
        self._seq = self._told = 0
        self.dropped = 0
        """Facts lost because nobody took them in time."""

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, fact: Fact) -> None:
        """Keep a fact until it is acknowledged."""
        if len(self._kept) >= self._capacity:
            del self._kept[next(iter(self._kept))]
            self.dropped += 1
        self._seq += 1
        self._kept[self._seq] = fact
        self._unsent.append(self._seq)
        if len(self._unsent) > self._capacity:
            self._unsent.popleft()

    def rewind(self) -> None:
        """A new reader: it gets everything that is kept."""
        self._unsent = deque(self._kept)

    def take(self, limit: int) -> Iterator[tuple[int, Fact, bool]]:
        """Up to `limit` facts that this reader has not had: (number, fact, told before)."""
        while limit > 0 and self._unsent:
            seq = self._unsent.popleft()
            if (fact := self._kept.get(seq)) is not None:
                limit -= 1
                again = seq <= self._told
                self._told = max(self._told, seq)
                yield seq, fact, again

    def acknowledge(self, seqs: Iterable[int]) -> None:
        """These are put away."""
        for seq in seqs:
            self._kept.pop(seq, None)
