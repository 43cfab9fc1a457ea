"""A fleet in which the planner's actions happen, and in which whatever may go wrong goes wrong.

No event loop: phases change through `lifecycle.step` alone, chance is a `Random` of the test's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from pdctl.domain import actions as do
from pdctl.domain import pairing
from pdctl.domain.compat import compat
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Endpoint, Instance, Pair, Vitals
from pdctl.domain.lifecycle import ALIVE, Phase, Reason, Trigger, step
from pdctl.domain.placement import Holding, overlap, ports
from pdctl.domain.plan import plan
from pdctl.domain.retry import backoff_s
from pdctl.domain.topology import FleetSpec, Mode, Role, fingerprint

GONE = frozenset({Phase.STOPPED, Phase.BACKOFF, Phase.FAILED, Phase.PENDING})


@dataclass
class Sim:
    """One world and its past."""

    desired: FleetSpec
    rng: Random
    now: float = 1000.0
    instances: dict[InstanceId, Instance] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    wishes: do.Wishes = field(default_factory=do.Wishes)
    generations: dict[str, int] = field(default_factory=dict)
    acted: list[do.Action] = field(default_factory=list)
    troubled: bool = True
    """Things still go wrong."""

    def tick(self) -> do.Plan:
        """Plan once and let every action happen."""
        observed = list(self.instances.values())
        self.pairs = pairing.sync(observed, self.pairs)
        self.check_pairs()
        ahead = plan(self.desired, observed, self.pairs, self.now, self.wishes)
        self.check_promises(ahead)
        for action in ahead.actions:
            self.apply(action)
            self.acted.append(action)
        self.check_owners()
        return ahead

    def live(self) -> None:
        """Time passes and something happens to some of them."""
        self.now += self.rng.choice([0.1, 1.0, 5.0, 30.0])
        for one in list(self.instances.values()):
            if self.rng.random() < 0.7:
                self.happen(one)
        for pair in self.pairs:
            if pair.state == pairing.PROBING and self.rng.random() < 0.7:
                self.probed(pair)

    def rest(self, limit: int = 400) -> do.Plan:
        """Nothing goes wrong any more: run until the planner is silent and nothing moves."""
        self.troubled = False
        for _ in range(limit):
            ahead = self.tick()
            before = (dict(self.instances), self.pairs)
            for one in list(self.instances.values()):
                self.happen(one)
            for pair in self.pairs:
                if pair.state == pairing.PROBING:
                    self.probed(pair)
            still = before == (self.instances, self.pairs)
            if still and not ahead.actions:
                if ahead.next_look is None:
                    return ahead
                self.now = ahead.next_look
            else:
                self.now += 1.0
        raise AssertionError(f"never silent: {ahead}")

    def trouble(self, share: float) -> bool:
        return self.troubled and self.rng.random() < share

    def move(self, one: Instance, trigger: Trigger, **changes: Any) -> None:
        phase = step(one.phase, trigger)
        self.instances[one.id] = replace(one, phase=phase, since=self.now, **changes)

    def happen(self, one: Instance) -> None:
        """What the world does to one instance next."""
        vitals = one.vitals
        runs = one.phase in ALIVE and one.phase is not Phase.STOPPING
        if runs and (vitals.killed or self.trouble(0.1)):
            self.crash(one)
        elif one.phase in (Phase.STARTING, Phase.LOADING, Phase.UNKNOWN):
            self.move(one, Trigger.ENGINE_UP, vitals=replace(vitals, progress_at=self.now))
        elif one.phase is Phase.DRAINING:
            left = self.rng.randrange(one.inflight + 1) if self.troubled else 0
            quiet = self.now if left == 0 and vitals.quiet_at is None else vitals.quiet_at
            vitals = replace(vitals, quiet_at=quiet)
            self.instances[one.id] = replace(one, inflight=left, vitals=vitals)
        elif one.phase is Phase.STOPPING and not self.trouble(0.3):
            self.move(one, Trigger.EXITED, vitals=Vitals(), inflight=0)
        elif one.phase is Phase.READY:
            self.serve(one)

    def serve(self, one: Instance) -> None:
        vitals = one.vitals
        if self.trouble(0.05):
            vitals = replace(vitals, misses=3)
        elif self.trouble(0.05):
            vitals = replace(vitals, stalled_since=self.now - 100, scraped_at=self.now)
        inflight = self.rng.randrange(4) if self.troubled else 0
        self.instances[one.id] = replace(one, inflight=inflight, vitals=vitals)

    def crash(self, one: Instance) -> None:
        if one.phase is Phase.DRAINING:
            self.move(one, Trigger.EXITED, vitals=Vitals(), inflight=0)
            return
        race = self.troubled and self.rng.random() < 0.1
        config = self.troubled and self.rng.random() < 0.05
        reason = Reason.PORT_RACE if race else Reason.EXITED
        failures = one.failures + (not race)
        self.move(
            one,
            Trigger.CRASHED,
            reason=Reason.CONFIG_ERROR if config else reason,
            failures=failures,
            retry_at=self.now + (0.0 if race else backoff_s(failures, one.id)),
            vitals=Vitals(),
            inflight=0,
        )

    def probed(self, pair: Pair) -> None:
        ok = not self.trouble(0.3)
        new = replace(
            pair,
            state=pairing.OK if ok else pairing.FAILING,
            failures=0 if ok else pair.failures + 1,
            retry_at=None if ok else self.now + backoff_s(pair.failures + 1, "p"),
        )
        self.put(new)

    def put(self, new: Pair) -> None:
        self.pairs = tuple(
            new if (one.prefill, one.decode) == (new.prefill, new.decode) else one
            for one in self.pairs
        )

    def apply(self, action: do.Action) -> None:
        if isinstance(action, do.Launch):
            self.launch(action)
            return
        if isinstance(action, do.ProbePair):
            (pair,) = [
                one
                for one in self.pairs
                if (one.prefill, one.decode) == (action.prefill, action.decode)
            ]
            self.put(replace(pair, state=pairing.PROBING, retry_at=None))
            return
        if isinstance(action, do.Stop):
            self.stop(self.instances[action.id], action)
            return
        self.note_down(self.instances[action.id], action)

    def note_down(self, one: Instance, action: do.Action) -> None:
        """Actions that only change a phase."""
        vitals = one.vitals
        match action:
            case do.Warm():
                self.move(one, Trigger.WARMED)
            case do.MarkReady():
                self.move(one, Trigger.PROBED, vitals=replace(vitals, ready_at=self.now))
            case do.Drain(why=why, deadline=deadline):
                self.move(one, Trigger.DRAIN_BEGUN, reason=why, drain_deadline=deadline)
            case do.Undrain():
                self.move(one, Trigger.DRAIN_CANCELLED, reason=Reason.DESIRED, drain_deadline=None)
            case do.Retry(fresh=fresh):
                trigger = Trigger.CLEARED if one.phase is Phase.FAILED else Trigger.RETRY_DUE
                kept = one.reason if one.reason is Reason.PORT_RACE else Reason.DESIRED
                failures = 0 if fresh else one.failures
                self.move(one, trigger, reason=kept, retry_at=None, failures=failures)
            case do.Settle():
                self.instances[one.id] = replace(one, failures=0)
            case do.GiveUp(why=why):
                self.move(one, Trigger.GAVE_UP, reason=why)
            case do.Forget():
                del self.instances[one.id]

    def launch(self, action: do.Launch) -> None:
        pool = self.desired.pool(action.pool)
        assert pool is not None
        old = self.instances.get(action.id)
        generation = self.generations.get(action.id, 0) + 1
        self.generations[action.id] = generation
        assert old is None or old.phase in (Phase.PENDING, Phase.STOPPED)
        self.instances[action.id] = Instance(
            id=action.id, pool=pool.name, role=pool.role, slot=action.slot,
            fingerprint=fingerprint(self.desired, pool), phase=Phase.STARTING,
            reason=Reason.DESIRED, message="", since=self.now,
            endpoint=Endpoint("127.0.0.1", action.slot.http_port, action.slot.side_channel_port),
            compat=compat(self.desired, pool),
            generation=generation, nonce=f"{action.id}/{generation}",
            failures=old.failures if old else 0, vitals=Vitals(progress_at=self.now),
        )  # fmt: skip

    def stop(self, one: Instance, action: do.Stop) -> None:
        if one.phase in (Phase.PENDING, Phase.BACKOFF, Phase.FAILED):
            self.move(one, Trigger.STOP_BEGUN, reason=action.why)
            return
        kill = action.rung is do.Rung.KILL
        vitals = replace(one.vitals, kill_at=self.now + 15, killed=kill)
        if kill and action.why in (Reason.UNHEALTHY, Reason.START_TIMEOUT):
            trigger = Trigger.LOST_SIGHT if one.phase is Phase.READY else None
            if trigger:
                self.move(one, trigger, reason=action.why, vitals=vitals)
            else:
                self.instances[one.id] = replace(one, reason=action.why, vitals=vitals)
        elif one.phase is Phase.STOPPING:
            self.instances[one.id] = replace(one, vitals=vitals)
        else:
            self.move(one, Trigger.STOP_BEGUN, reason=action.why, vitals=vitals)

    def check_owners(self) -> None:
        """Never two owners of a port, a device or a core."""
        held = [
            Holding(one.id, one.pool, one.slot)
            for one in self.instances.values()
            if one.phase is not Phase.STOPPED
        ]
        for i, one in enumerate(held):
            for other in held[:i]:
                assert not set(ports(one)) & set(ports(other)), (one, other)
                assert not overlap(one.slot, other.slot), (one, other)

    def check_pairs(self) -> None:
        """Old with old and new with new: what may not pair is neither probed nor routed."""
        for pair in self.pairs:
            fits = len({self.instances[x].compat for x in (pair.prefill, pair.decode)}) == 1
            assert fits == (pair.state != pairing.INCOMPATIBLE), pair

    def check_promises(self, ahead: do.Plan) -> None:
        """Drains end for a reason; one action for each instance; the last of a role stays."""
        acted = [one.id for one in ahead.actions if not isinstance(one, do.ProbePair)]
        assert len(acted) == len(set(acted)), ahead.actions
        for action in ahead.actions:
            if isinstance(action, do.Stop) and not self.wishes.force:
                self.check_stop(self.instances[action.id], action)
            if isinstance(action, do.Drain):
                self.check_drain(self.instances[action.id], action, ahead)
        assert ahead.next_look is None or ahead.next_look > self.now

    def check_stop(self, one: Instance, action: do.Stop) -> None:
        assert one.phase is not Phase.READY or action.rung is do.Rung.KILL
        if one.phase is Phase.DRAINING:
            deadline = min(
                one.drain_deadline or 0.0, self.wishes.close_by or one.drain_deadline or 0.0
            )
            assert one.vitals.quiet_at is not None or deadline <= self.now

    def check_drain(self, one: Instance, action: do.Drain, ahead: do.Plan) -> None:
        asked = action.why in (Reason.OPERATOR, Reason.SHUTDOWN)
        if one.phase is not Phase.READY or asked or self.desired.mode is not Mode.PD:
            return
        gone = {x.id for x in ahead.actions if isinstance(x, do.Drain | do.Stop)}
        left = [x for x in self.instances.values() if x.phase is Phase.READY and x.id not in gone]
        for role in (Role.PREFILL, Role.DECODE):
            wanted = any(p.size for p in self.desired.pools if p.role in (role, Role.BOTH))
            if wanted and one.role in (role, Role.BOTH):
                served = any(x.role in (role, Role.BOTH) for x in left)
                lost = any(x.id in gone and not isinstance(x, do.Drain) for x in left)
                assert served or lost or "goes first" in action.message, (one, ahead)

    def ready(self) -> Iterator[Instance]:
        """Those in service."""
        return (one for one in self.instances.values() if one.phase is Phase.READY)
