"""Who waits for a place, and whose turn it is: clients take turns, each with its oldest request.

Law: however many requests one client has waiting, another's first waits for one turn of each
client. A full line makes room for who has less in it, at the expense of who has most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from pdctl.gateway.ledger import Reservation
from pdctl.routing.facts import RequestFacts
from pdctl.routing.router import Avoid, Refusal

Answer = Reservation | Refusal


@dataclass(eq=False, slots=True)
class Place:
    """One request in the line."""

    client: str
    """Name of its API key, else its address."""
    facts: RequestFacts
    avoid: Avoid
    answer: asyncio.Future[Answer]
    since: float = 0.0
    """When it came, monotonic seconds."""
    held: bool = False
    """What it would be given now comes too late for it."""

    @property
    def picky(self) -> bool:
        """It does not take any place: it failed somewhere, or would be late there. Others may."""
        return self.held or self.retries

    @property
    def retries(self) -> bool:
        """It failed somewhere and does not go there again."""
        return bool(self.avoid.instances or self.avoid.pairs)


class Line:
    """Places by client; the client whose turn it is comes first."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Place]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Place]:
        """Every client's oldest in turn, then every client's next; not while the line changes."""
        depth, more = 0, bool(self._lanes)
        while more:
            more = False
            for lane in self._lanes.values():
                if depth < len(lane):
                    more = True
                    yield lane[depth]
            depth += 1

    def join(self, place: Place) -> None:
        """A place at the end."""
        self._lanes.setdefault(place.client, deque()).append(place)
        self._size += 1

    def leave(self, place: Place) -> bool:
        """It waits no more; False when it did not wait."""
        lane = self._lanes.get(place.client, deque())
        if place not in lane:
            return False
        lane.remove(place)
        self._size -= 1
        if not lane:
            del self._lanes[place.client]
        return True

    def served(self, place: Place) -> None:
        """It had its turn: its client's next comes when all others had theirs."""
        self.leave(place)
        if lane := self._lanes.pop(place.client, None):
            self._lanes[place.client] = lane

    def displaced_by(self, client: str) -> Place | None:
        """Who makes room in a full line for one more of `client`; None: nobody has more in it."""
        longest = max(self._lanes.values(), key=len, default=None)
        own = self._lanes.get(client, ())
        return longest[-1] if longest and len(longest) > len(own) + 1 else None
