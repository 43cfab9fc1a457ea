"""What is observed of the fleet, and the only place where a phase changes.

Law: every change of phase goes through `lifecycle.step`; what people should know is published in
the same breath as the snapshot that shows it, so a list followed by a watch misses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.domain import pairing, seats
from pdctl.domain.events import EventKind
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.lifecycle import Trigger, step
from pdctl.domain.topology import FleetSpec
from pdctl.ports import Clock

PairKey = tuple[InstanceId, InstanceId]
LOUD_PAIRS = 200
"""Above so many pairs, one event stands for all that one instance took along: the ring and the
store are not flooded by it, and a face that holds so many lists them anew instead."""


class Observed:
    """The reconciler's working copy of instances and pairs."""

    def __init__(self, state: FleetState, feed: Feed, clock: Clock) -> None:
        self._state, self._feed, self._clock = state, feed, clock
        self._instances: dict[InstanceId, Instance] = {}
        self._pairs: dict[PairKey, Pair] = {}
        self._listed: tuple[Pair, ...] | None = ()
        """`_pairs` as last shown; None when it has changed since. There are thousands of them."""
        self._told: dict[PairKey, str] = {}
        """The state of each pair that readers last heard of."""
        self._notes: tuple[str, ...] = ()
        self.generations: dict[InstanceId, int] = {}
        """The highest generation ever seen of each id, forgotten ones included."""
        self.unsaved = False
        """True when something worth keeping changed since it was last saved."""

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All of them, pool by pool."""
        return tuple(self._instances.values())

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All of them, by prefill."""
        if self._listed is None:
            self._listed = tuple(self._pairs.values())
        return self._listed

    @property
    def desired(self) -> FleetSpec:
        """What operators want, as it is now."""
        return self._state.fleet.desired

    def get(self, id_: str) -> Instance | None:
        """The instance called `id_`, or None."""
        return self._instances.get(InstanceId(id_))

    def same(self, one: Instance) -> Instance | None:
        """`one` as it is now, or None when that process is not the one in charge any more."""
        now = self._instances.get(one.id)
        return now if now is not None and now.nonce == one.nonce else None

    def pair(self, prefill: InstanceId, decode: InstanceId) -> Pair | None:
        """That pair, or None."""
        return self._pairs.get((prefill, decode))

    def add(self, one: Instance) -> None:
        """A new instance."""
        self._instances[one.id] = one
        order = {pool.name: n for n, pool in enumerate(self._state.fleet.desired.pools)}
        self._instances = dict(
            sorted(
                self._instances.items(),
                key=lambda item: (
                    order.get(item[1].pool, len(order)), item[1].pool, seats.number(item[0])
                ),
            )
        )  # fmt: skip
        self._changed(one)

    def move(self, one: Instance, trigger: Trigger, **changes: Any) -> Instance:
        """Let `trigger` happen to `one`; LifecycleError when it cannot."""
        phase = step(one.phase, trigger)
        since = one.since if phase is one.phase else self._clock.now()
        return self.edit(one, phase=phase, since=since, **changes)

    def edit(self, one: Instance, **changes: Any) -> Instance:
        """Replace fields of `one`; publishes when phase, reason or message changed."""
        new = replace(one, **changes)
        self._instances[one.id] = new
        loud = (new.phase, new.reason, new.message) != (one.phase, one.reason, one.message)
        if loud or new.nonce != one.nonce:
            self._changed(new)
        else:
            self.show()
        return new

    def reassign(self, new: Instance) -> None:
        """The same process in another pool: it stands with that pool's members from now on."""
        del self._instances[new.id]
        self.add(new)

    def refresh(self, news: Iterable[Instance]) -> None:
        """Replace many at once, silently: numbers that nobody needs an event for."""
        self._instances.update({one.id: one for one in news})
        self.show()

    def drop(self, one: Instance) -> None:
        """Forget an instance that has stopped; its generation is remembered."""
        del self._instances[one.id]
        self.unsaved = True
        self._feed.publish(
            EventKind.INSTANCE_CHANGED,
            one.id,
            {
                "phase": None, "reason": one.reason.value, "pool": one.pool,
                "message": "it has left the fleet", "generation": one.generation,
            },
        )  # fmt: skip
        self.sync_pairs()

    def put_pair(self, pair: Pair) -> None:
        """Replace a pair; publishes when its state or message changed."""
        key = (pair.prefill, pair.decode)
        old = self._pairs.get(key)
        self._pairs[key], self._listed = pair, None
        if old is None or (old.state, old.message) != (pair.state, pair.message):
            self._tell_pair(pair, self._away(pair))
        self.show()

    def sync_pairs(self) -> None:
        """Bring the list of pairs in line with the instances: a restarted end is untried.

        Publishes every pair that is not what it was because of one of its ends.
        """
        pairs = pairing.sync(self.instances, self.pairs)
        self._pairs, self._listed = {(pair.prefill, pair.decode): pair for pair in pairs}, pairs
        told, self._told = self._told, {}
        away, moved = pairing.absent(self._instances.values()), []
        for key, pair in self._pairs.items():
            state = pairing.shown(pair, away)[0]
            self._told[key] = state
            if told.get(key, state) != state:
                moved.append(pair)
        for pair in moved if len(self._pairs) <= LOUD_PAIRS else moved[:1]:
            self._tell_pair(pair, away)
        self.show()

    def _away(self, pair: Pair) -> dict[InstanceId, str]:
        ends = (self._instances.get(end) for end in (pair.prefill, pair.decode))
        return pairing.absent(one for one in ends if one is not None)

    def _tell_pair(self, pair: Pair, away: Mapping[InstanceId, str]) -> None:
        state, message = pairing.shown(pair, away)
        self._told[pair.prefill, pair.decode] = state
        data = {
            "state": state, "message": message, "handoff_ms": pair.handoff_ms,
            "last_ok": pair.last_ok,
        }  # fmt: skip
        self._feed.publish(EventKind.PAIR_CHANGED, f"{pair.prefill}>{pair.decode}", data)

    def note(self, notes: Sequence[str]) -> None:
        """The planner's notes."""
        self._notes = tuple(notes)
        self.show()

    def show(self) -> None:
        """Let readers see it."""
        self._state.set_observed(self.instances, self.pairs, self._notes, self._feed.seq)

    def _changed(self, one: Instance) -> None:
        self.unsaved = True
        known = self.generations.get(one.id, 0)
        self.generations[one.id] = max(known, one.generation)
        self._feed.publish(
            EventKind.INSTANCE_CHANGED,
            one.id,
            {
                "phase": one.phase.value, "reason": one.reason.value, "message": one.message,
                "pool": one.pool, "generation": one.generation,
            },
        )  # fmt: skip
        self.sync_pairs()
