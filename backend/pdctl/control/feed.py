"""The event feed: numbers facts, keeps the newest in a ring, and hands them to subscribers.

Law: `publish` is synchronous and never waits. A subscriber that does not keep up loses its queue
and is told to list again (`Reset`); a slow face can never slow the fleet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from pdctl.domain.events import Event, EventKind
from pdctl.domain.ids import Seq
from pdctl.ports import Clock


@dataclass(frozen=True, slots=True)
class Reset:
    """You missed facts: list the fleet again, then go on after `seq`."""

    seq: int


class Subscription:
    """One reader's place in the feed. Async context manager, and async iterator of facts."""

    def __init__(self, feed: Feed, backlog: list[Event | Reset], limit: int) -> None:
        self._feed = feed
        self._queue: deque[Event | Reset] = deque(backlog)
        self._limit = max(limit, len(backlog))
        self._filled = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Queue `event`, or turn the whole queue into one reset when it is full."""
        if len(self._queue) >= self._limit:
            self._queue.clear()
            self._queue.append(Reset(event.seq))
        elif self._queue and isinstance(self._queue[-1], Reset):
            self._queue[-1] = Reset(event.seq)
        else:
            self._queue.append(event)
        self._filled.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._feed.drop(self)

    def __aiter__(self) -> AsyncIterator[Event | Reset]:
        return self

    async def __anext__(self) -> Event | Reset:
        while not self._queue:
            self._filled.clear()
            await self._filled.wait()
        return self._queue.popleft()


class Feed:
    """Sequence, ring and subscribers of one control plane."""

    def __init__(
        self, clock: Clock, first_seq: int = 0, ring: int = 4096, backlog: int = 1024
    ) -> None:
        self._clock = clock
        self._ring: deque[Event] = deque(maxlen=ring)
        self._subscribers: set[Subscription] = set()
        self._backlog = backlog
        self._listeners: list[Callable[[Event], None]] = []
        self.seq = first_seq
        """Position of the newest fact; continues after the store's last one."""

    @property
    def oldest(self) -> int:
        """Seq of the oldest fact still held; one past the newest when none is."""
        return self._ring[0].seq if self._ring else self.seq + 1

    def publish(self, kind: EventKind, subject: str, data: dict[str, Any] | None = None) -> Event:
        """Number a fact, keep it and offer it to every subscriber, without waiting for any."""
        self.seq += 1
        event = Event(Seq(self.seq), self._clock.now(), kind, subject, data or {})
        self._ring.append(event)
        for subscriber in self._subscribers:
            subscriber.offer(event)
        for listener in self._listeners:
            listener(event)
        return event

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every fact from now on, as it is published; it must not raise."""
        self._listeners.append(listener)

    def recent(self, limit: int) -> list[Event]:
        """The newest `limit` facts still held, oldest first."""
        return list(islice(self._ring, max(0, len(self._ring) - limit), None))

    def since(self, after: int) -> list[Event] | None:
        """Facts with seq > `after`, oldest first; None when some of them are no longer held."""
        if after > self.seq or after + 1 < self.oldest:
            return None
        return [event for event in self._ring if event.seq > after]

    def subscribe(self, after: int | None) -> Subscription:
        """Facts after `after` (None: from now on); begins with a reset when they are not held."""
        missed: list[Event] | None = [] if after is None else self.since(after)
        backlog: list[Event | Reset] = [Reset(self.seq)] if missed is None else [*missed]
        subscription = Subscription(self, backlog, self._backlog)
        self._subscribers.add(subscription)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        """Forget a subscriber that has left."""
        self._subscribers.discard(subscription)
