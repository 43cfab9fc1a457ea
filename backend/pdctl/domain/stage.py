"""A toy world in which the planner's actions succeed after the time they should take: pure.

Law: it decides nothing. What is done comes from `plan()`, phases change through `lifecycle.step`,
and time passes only from one expected moment to the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pdctl.domain import actions as do
from pdctl.domain import moving, pairing
from pdctl.domain.compat import compat
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Endpoint, Instance, Pair, Vitals
from pdctl.domain.lifecycle import ALIVE, TRANSITIONS, Phase, Reason, Trigger, step
from pdctl.domain.pace import Pace, Span
from pdctl.domain.pair_book import PairBook
from pdctl.domain.retry import backoff_s
from pdctl.domain.topology import FleetSpec, fingerprint

SCRAPE_S = 2.0
"""After the last stream, an engine's counters are read again within this time."""
LOOK_S = 1.0
DYING_S = 0.5
_COMING = frozenset({Phase.STARTING, Phase.LOADING, Phase.UNKNOWN})
_NO_PROCESS = frozenset({Phase.PENDING, Phase.BACKOFF, Phase.FAILED})
_SICK = frozenset({Reason.UNHEALTHY, Reason.START_TIMEOUT})
Told = Callable[[str, str], None]
"""(what has come to its end, whose): "up", "warmed", "probed", "quiet", "ended"."""


@dataclass(slots=True)
class Stage:
    """One world; `act` lets an action begin, `pass_time` lets the next thing happen."""

    desired: FleetSpec
    now: float
    pace: Pace
    told: Told
    instances: dict[InstanceId, Instance] = field(default_factory=dict)
    pairs: PairBook = field(default_factory=PairBook)
    _due: list[tuple[float, int, str, str, int]] = field(default_factory=list)
    """(at, order, what, whose, generation)."""
    _count: int = 0

    def enter(self, observed: Iterable[Instance], pairs: Iterable[Pair]) -> None:
        """Begin with what is there, and finish in due time what is under way."""
        for one in observed:
            vitals = replace(
                one.vitals, progress_at=None, misses=0, stalled_since=None, kill_at=None,
                killed=False,
            )  # fmt: skip
            self.instances[one.id] = replace(one, vitals=vitals)
            self._go_on(one)
        self.pairs = PairBook.of(list(self.instances.values()), list(pairs))
        for pair in list(self.pairs.open.values()):
            if pair.state == pairing.PROBING:
                self._probe(pair)

    def sync(self) -> None:
        """Bring the pairs in line with the instances."""
        self.pairs.sync(self.instances)

    def act(self, action: do.Action) -> bool:
        """Let it begin; True when it is done at once, so that more may follow now."""
        match action:
            case do.Launch():
                self._launch(action)
                return False
            case do.ProbePair():
                self._probe(self.pairs.all[action.prefill, action.decode])
                return False
        one = self.instances[action.id]
        if isinstance(action, do.Warm):
            wait = self.pace.of(one.pool, Span.WARM).seconds
            self.instances[one.id] = replace(one, retry_at=self.now + wait + LOOK_S)
            self._at(wait, "warmed", one)
            return False
        if isinstance(action, do.Stop):
            self._stop(one, action)
        elif isinstance(action, do.Reassign):
            if (pool := self.desired.pool(action.pool)) is not None:
                self.instances[one.id] = moving.reassigned(one, pool)
                self.sync()
        else:
            self._note_down(one, action)
        return True

    def next_at(self) -> float | None:
        """When something is to happen, None when nothing is under way."""
        return self._due[0][0] if self._due else None

    def pass_time(self, until: float) -> None:
        """Let everything happen that falls due by then."""
        self.now = max(self.now, until)
        while self._due and self._due[0][0] <= self.now:
            _, _, what, whose, generation = heapq.heappop(self._due)
            if what == "probed":
                self._probed(whose)
            else:
                one = self.instances.get(InstanceId(whose))
                if one is not None and one.generation == generation:
                    self._happen(what, one)

    def _at(self, wait: float, what: str, one: Instance) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + wait, self._count, what, one.id, one.generation))

    def _go_on(self, one: Instance) -> None:
        """What is under way goes on."""
        if one.phase in _COMING:
            wait = self.pace.of(one.pool, Span.START).seconds
            if one.phase is Phase.UNKNOWN:
                wait = LOOK_S
            elif one.progress is not None and one.progress.fraction is not None:
                wait *= 1 - one.progress.fraction
            self._at(wait, "up", one)
        elif one.phase is Phase.DRAINING and one.vitals.quiet_at is None:
            self._at(self._streams_s(one), "quiet", one)
        elif one.phase is Phase.DRAINING:
            self._at(SCRAPE_S, "scraped", one)
        elif one.phase is Phase.STOPPING:
            self._at(self.pace.of(one.pool, Span.STOP).seconds, "ended", one)

    def _streams_s(self, one: Instance) -> float:
        """How long its open streams are expected to go on."""
        return self.pace.of(one.pool, Span.DRAIN).seconds if one.inflight else 0.0

    def _move(self, one: Instance, trigger: Trigger, **changes: Any) -> Instance:
        new = replace(one, phase=step(one.phase, trigger), **changes)
        self.instances[one.id] = new
        return new

    def _launch(self, action: do.Launch) -> None:
        pool, old, slot = self.desired.pool(action.pool), self.instances.get(action.id), action.slot
        if pool is None:
            return
        new = Instance(
            id=action.id, pool=pool.name, role=pool.role, slot=slot,
            fingerprint=fingerprint(self.desired, pool), phase=Phase.STARTING,
            reason=Reason.DESIRED, message="", since=0.0,
            endpoint=Endpoint("", slot.http_port, slot.side_channel_port),
            compat=compat(self.desired, pool),
            generation=old.generation + 1 if old else 1, failures=old.failures if old else 0,
        )  # fmt: skip
        self.instances[action.id] = new
        self._at(self.pace.of(pool.name, Span.START).seconds, "up", new)

    def _probe(self, pair: Pair) -> None:
        if pair.state != pairing.OK:
            self.pairs.put(replace(pair, state=pairing.PROBING, retry_at=None))
        else:
            self.pairs.put(replace(pair, retry_at=None))
        decode = self.instances[pair.decode]
        wait = self.pace.of(decode.pool, Span.PROBE).seconds
        self._count += 1
        key = f"{pair.prefill}>{pair.decode}"
        heapq.heappush(self._due, (self.now + wait, self._count, "probed", key, 0))

    def _probed(self, key: str) -> None:
        prefill, _, decode = key.partition(">")
        pair = self.pairs.all.get((InstanceId(prefill), InstanceId(decode)))
        if pair is not None and pair.state in (pairing.PROBING, pairing.OK):
            self.pairs.put(replace(pair, state=pairing.OK, failures=0))
            self.told("probed", key)

    def _stop(self, one: Instance, action: do.Stop) -> None:
        if one.phase in _NO_PROCESS:
            self._move(one, Trigger.STOP_BEGUN, reason=action.why, retry_at=None)
            self.told("ended", one.id)
            return
        wait = self.pace.of(one.pool, Span.STOP).seconds
        if action.rung is do.Rung.KILL:
            wait = DYING_S
        if action.why in _SICK:
            vitals = replace(one.vitals, kill_at=self.now + 2 * wait + LOOK_S)
            if (one.phase, Trigger.LOST_SIGHT) in TRANSITIONS:
                one = self._move(one, Trigger.LOST_SIGHT, reason=action.why, vitals=vitals)
            else:
                self.instances[one.id] = replace(one, reason=action.why, vitals=vitals)
        elif one.phase is not Phase.STOPPING:
            one = self._move(one, Trigger.STOP_BEGUN, reason=action.why)
        self._at(wait, "ended", one)

    def _note_down(self, one: Instance, action: do.Action) -> None:
        match action:
            case do.MarkReady():
                self._move(one, Trigger.PROBED, reason=Reason.DESIRED)
            case do.Drain():
                quiet = one.vitals.quiet_at if one.phase is Phase.DRAINING else None
                vitals = replace(one.vitals, quiet_at=quiet)
                new = self._move(
                    one, Trigger.DRAIN_BEGUN, reason=action.why, drain_deadline=action.deadline,
                    message=action.message, vitals=vitals,
                )  # fmt: skip
                if quiet is None:
                    self._at(self._streams_s(one), "quiet", new)
            case do.Undrain():
                vitals = replace(one.vitals, quiet_at=None)
                self._move(one, Trigger.DRAIN_CANCELLED, drain_deadline=None, vitals=vitals)
            case do.Retry():
                trigger = Trigger.CLEARED if one.phase is Phase.FAILED else Trigger.RETRY_DUE
                self._move(one, trigger, reason=Reason.DESIRED, retry_at=None)
            case do.Settle():
                self.instances[one.id] = replace(one, failures=0)
            case do.GiveUp():
                self._move(one, Trigger.GAVE_UP, reason=action.why, message=action.message)
            case do.Forget():
                del self.instances[one.id]

    def _happen(self, what: str, one: Instance) -> None:
        vitals = one.vitals
        if what == "up" and one.phase in _COMING:
            self._move(one, Trigger.ENGINE_UP, progress=None)
        elif what == "warmed" and one.phase is Phase.WARMING:
            self._move(one, Trigger.WARMED, retry_at=None)
        elif what == "quiet" and one.phase is Phase.DRAINING:
            busy = self.now if one.inflight else vitals.busy_at
            vitals = replace(vitals, quiet_at=self.now, busy_at=busy)
            self.instances[one.id] = replace(one, inflight=0, vitals=vitals)
            self._at(SCRAPE_S, "scraped", one)
        elif what == "scraped" and one.phase is Phase.DRAINING:
            self.instances[one.id] = replace(one, vitals=replace(vitals, scraped_at=self.now))
        elif what == "ended" and one.phase in ALIVE:
            self._end(one)
        else:
            return
        self.told(what, one.id)

    def _end(self, one: Instance) -> None:
        fate = {"inflight": 0, "vitals": Vitals(), "drain_deadline": None}
        if one.phase in (Phase.STOPPING, Phase.DRAINING):
            self._move(one, Trigger.EXITED, **fate)
        else:
            pause = backoff_s(one.failures + 1, one.id)
            again = {"retry_at": self.now + pause, "failures": one.failures + 1}
            self._move(one, Trigger.CRASHED, **fate, **again)
