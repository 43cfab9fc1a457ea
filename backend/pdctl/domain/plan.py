"""The planner: desired and observed in, actions and reasons out. Pure, and silent when converged.

Laws: free before you take; never strand a role; drain is a promise; backoff grows and gives up
loudly; never two owners; READY only after every live pair has been tried. Each has a property test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pdctl.domain import holding, moving, pairing, rolling, seats, silence, upkeep
from pdctl.domain.actions import (
    Action,
    Drain,
    Forget,
    Launch,
    MarkReady,
    Plan,
    Retry,
    Rung,
    Stop,
    Undrain,
    Warm,
    Wishes,
)
from pdctl.domain.compat import compat
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Pair, Refused, Slot
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.pair_book import PairBook
from pdctl.domain.placement import Holding, place, side_channels
from pdctl.domain.topology import FleetSpec, Mode, PoolSpec, Role, fingerprint

ORPHAN_DRAIN_S = 30.0
"""Drain budget of an instance whose pool is no longer in the fleet."""
_IN_CHARGE = frozenset({Phase.DRAINING, Phase.STOPPING})


def plan(
    desired: FleetSpec,
    observed: Sequence[Instance],
    pairs: Sequence[Pair] | PairBook,
    now: float,
    wishes: Wishes | None = None,
) -> Plan:
    """What to do next. `now` is monotonic seconds; every tick starts from the whole picture.

    A `PairBook` has to be in line with `observed`; it is read, not changed.
    """
    reassigned, observed = moving.take_over(desired, observed)
    if not isinstance(pairs, PairBook):
        pairs = PairBook.of(observed, pairs)
    elif reassigned:
        pairs = PairBook.of(observed, list(pairs.all.values()))
    draft = _Draft(desired, observed, pairs, now, wishes or Wishes())
    draft.actions.extend(reassigned)
    draft.fill_seats()
    for one in observed:
        draft.tend(one)
    for one in observed:
        holding.begin(draft, one)
    draft.renew()
    draft.release()
    draft.notes.extend(rolling.stays(draft))
    if not draft.closing:
        active = pairs.open | pairs.timed
        draft.actions.extend(pairing.due(draft.by_id, active.values(), now))
        draft.remark()
    again = (pair.retry_at for pair in pairs.timed.values())
    looks = [*draft.looks, *(at for at in again if at is not None)]
    return Plan(
        tuple(draft.actions),
        min((at for at in looks if at > now), default=None),
        tuple(dict.fromkeys(draft.notes)),
    )


@dataclass(slots=True)
class _Draft:
    """One plan in the making; lives for one call."""

    desired: FleetSpec
    observed: Sequence[Instance]
    pairs: PairBook
    now: float
    wishes: Wishes
    actions: list[Action] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    by_id: dict[InstanceId, Instance] = field(default_factory=dict)
    pools: dict[str, PoolSpec] = field(default_factory=dict)
    reflagged: set[str] = field(default_factory=set)
    """Those that run other flags than the desired ones."""
    outdated: set[str] = field(default_factory=set)
    """Those to replace: `reflagged`, and what an operator wants renewed."""
    renewed: set[str] = field(default_factory=set)
    """Pools that an operator has renewed as a whole."""
    rosters: dict[str, seats.Roster] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    held: list[Holding] = field(default_factory=list)
    relieved: set[str] = field(default_factory=set)
    """Old ones whose seats new ones have: they go when those are ready."""
    starved: set[str] = field(default_factory=set)
    """Pools that wanted a slot and got none."""
    ready: set[InstanceId] = field(default_factory=set)
    """READY instances that answer and that this plan leaves in rotation."""
    lost: set[InstanceId] = field(default_factory=set)
    """READY instances that turned out to be sick."""
    breaks: dict[InstanceId, str] = field(default_factory=dict)
    """Those that have to go before their replacement is ready, and why."""
    hashes: dict[str, str] = field(default_factory=dict)
    """What the ends of a handoff must share, by pool."""
    faster: dict[tuple[Role, int], bool] = field(default_factory=dict)
    """(role, count of READY ones): it is ahead of its peer in a rolling change."""
    alone: dict[tuple[str, str], list[InstanceId]] = field(default_factory=dict)
    """(pool, compat of old ones): the pair of new ones that they wait for."""
    staying: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(pool, until when or because of what): old ones whose turn has not come."""
    taken: set[InstanceId] = field(default_factory=set)
    """Those that this plan takes away in order to start them again."""
    broken: Sequence[Instance] = ()
    """Those whose last start failed by itself."""
    waiting: set[InstanceId] = field(default_factory=set)
    """Instances with a pair that has yet to be tried."""

    def __post_init__(self) -> None:
        self.by_id = {one.id: one for one in self.observed}
        names = {one.pool for one in self.observed}
        self.pools = {pool.name: pool for pool in self.desired.pools}
        self.hashes = {pool.name: compat(self.desired, pool) for pool in self.desired.pools}
        prints = {pool.name: fingerprint(self.desired, pool) for pool in self.desired.pools}
        self.reflagged = {
            one.id for one in self.observed if one.fingerprint != prints.get(one.pool)
        }
        renew = set(self.desired.orders.renew)
        counts = Counter(seats.pool_of(id_) for id_, _ in renew)
        self.renewed = {pool for pool, count in counts.items() if count > 1}
        stale = self.reflagged | {
            one.id for one in self.observed if (one.id, one.generation) in renew
        }
        self.outdated = stale - {one.id for one in self.observed if _is_coming_back(one)}
        self.waiting = pairing.waiting(self.by_id, self.pairs.open.values())
        self.ready = {
            one.id
            for one in self.observed
            if one.phase is Phase.READY and not silence.is_silent(one)
        }
        widths = {name: side_channels(self.desired, self.pools.get(name)) for name in names}
        self.held = [
            Holding(one.id, one.pool, one.slot, widths[one.pool])
            for one in self.observed
            if one.phase is not Phase.STOPPED
        ]
        self.broken = [one for one in self.observed if rolling.is_broken(one)]

    @property
    def closing(self) -> bool:
        return self.wishes.close_by is not None

    def _pool(self, one: Instance) -> PoolSpec | None:
        return self.pools.get(one.pool)

    def stay(self, one: Instance, what: str) -> None:
        self.staying.setdefault((one.pool, what), []).append(one.id)

    def look(self, at: float) -> None:
        self.looks.append(at)

    def fill_seats(self) -> None:
        """Sort every pool's members, then start what is missing or has come to rest."""
        for name in dict.fromkeys([*self.pools, *(one.pool for one in self.observed)]):
            members = [one for one in self.observed if one.pool == name]
            pool = self.pools.get(name)
            size = pool.size if pool and not self.closing else 0
            exempt = rolling.relieved(members, pool, self)
            leaving = self.desired.orders.leaving
            roster = seats.seat(members, size, self.outdated, exempt, leaving)
            self.relieved |= exempt
            self.rosters[name] = roster
            self.kept.update(one.id for one in roster.kept)
        for name, roster in self.rosters.items():
            if name in self.pools and not self.closing:
                self._start(self.pools[name], roster)
        for pool in self.pools.values() if not self.closing else ():
            rolling.surge(self, pool)

    def _start(self, pool: PoolSpec, roster: seats.Roster) -> None:
        taken = set(self.by_id)
        for one in roster.kept:
            if one.phase in (Phase.PENDING, Phase.STOPPED):
                self._launch(pool, one.id, one)
        for _ in range(roster.missing):
            id_ = seats.free_id(pool.name, taken)
            taken.add(id_)
            self._launch(pool, id_, None)

    def _launch(self, pool: PoolSpec, id_: InstanceId, old: Instance | None) -> None:
        others = [one for one in self.held if one.owner != id_]
        slot: Slot | Refused
        if old is not None and old.phase is Phase.PENDING and old.reason is not Reason.PORT_RACE:
            slot = old.slot
        else:
            race = old is not None and old.reason is Reason.PORT_RACE
            slot = place(self.desired, pool, others, avoid=old.slot if old and race else None)
        if isinstance(slot, Refused):
            self._refuse(pool, slot)
            return
        width = side_channels(self.desired, pool)
        self.held = [*others, Holding(id_, pool.name, slot, width)]
        self.actions.append(Launch(id_, pool.name, slot))

    def _refuse(self, pool: PoolSpec, refused: Refused) -> None:
        self.starved.add(pool.name)
        leaving = [one.id for one in self.observed if one.phase in _IN_CHARGE]
        wait = f"; waiting for {', '.join(leaving)} to stop" if leaving else ""
        held = f" ({'; '.join(refused.details)})" if refused.details else ""
        self.notes.append(f"{pool.name} wants {pool.size}, but {refused.why}{held}{wait}")

    def tend(self, one: Instance) -> None:
        """Carry one instance along: its own clock and state decide."""
        if one.phase is Phase.DRAINING:
            if not (holding.keep(self, one) or self._call_back(one)):
                upkeep.drain(self, one)
        elif one.phase is Phase.STOPPING:
            upkeep.stopping(self, one)
        elif one.phase is Phase.READY:
            if upkeep.ready(self, one):
                self.ready.discard(one.id)
                self.lost.add(one.id)
        elif one.id in self.kept and not self.is_stale(one):
            self._bring_up(one)
        elif (
            one.phase is Phase.UNKNOWN
            and one.id in self.kept | self.relieved
            and upkeep.starting(self, one)
        ):
            self.lost.add(one.id)

    def _bring_up(self, one: Instance) -> None:
        if one.phase in (Phase.BACKOFF, Phase.FAILED):
            upkeep.failed(self, one)
        elif one.phase is Phase.PROBING:
            if upkeep.sick(self, one) or one.id in self.waiting:
                return
            if holding.wanted(self, one) and holding.can_spare(self, one):
                holding.hold(self, one)  # before it is ready, or it would take work for a moment
            else:
                self.actions.append(MarkReady(one.id))
        elif not upkeep.starting(self, one) and one.phase is Phase.WARMING:
            self._warm(one)

    def _call_back(self, one: Instance) -> bool:
        if one.id not in self.kept or one.reason is Reason.OPERATOR or self.is_stale(one):
            return False
        self.actions.append(Undrain(one.id))
        return True

    def is_stale(self, one: Instance) -> bool:
        return one.id in self.outdated or (one.id, one.generation) in self.wishes.restart

    def _warm(self, one: Instance) -> None:
        if one.retry_at is not None and one.retry_at > self.now:
            self.look(one.retry_at)
        else:
            self.actions.append(Warm(one.id))

    def renew(self) -> None:
        """Replace kept instances that run old flags, one at a time, or that were asked to."""
        for name, roster in self.rosters.items():
            waits: list[Instance | Launch] = [*rolling.unready(roster), *self._new_in(name)]
            for one in roster.kept:
                if one.phase in seats.LEFT:
                    continue
                if (one.id, one.generation) in self.wishes.restart:
                    self._restart(one)
                elif one.id in self.outdated:
                    rolling.roll(self, one, waits)

    def _new_in(self, pool: str) -> list[Launch]:
        """Starts of new ones that this plan begins."""
        launched = (one for one in self.actions if isinstance(one, Launch))
        return [one for one in launched if one.pool == pool and one.id not in self.by_id]

    def _restart(self, one: Instance) -> None:
        if one.phase is Phase.READY and self.strands(one):
            self.notes.append(f"{one.id} is the last ready {one.role} until it is back")
        if one.phase in (Phase.BACKOFF, Phase.FAILED):
            self.actions.append(Retry(one.id, fresh=True))
        elif one.phase is not Phase.PENDING:
            self.take_away(one, Reason.OPERATOR, "an operator asked for a restart")

    def release(self) -> None:
        """Let go of what holds no seat: drain what serves, stop what does not."""
        for one in self.observed:
            if one.id in self.kept or one.phase in _IN_CHARGE:
                continue
            if one.phase is Phase.STOPPED:
                self.actions.append(Forget(one.id))
            elif one.id in self.relieved:
                if rolling.may_leave(self, one):
                    farewell = rolling.replaced(self, one) or self.farewell(one)
                    self.take_away(one, *farewell)
            elif one.phase is not Phase.READY or rolling.may_go(self, one):
                self.take_away(one, *self.farewell(one))

    def farewell(self, one: Instance) -> tuple[Reason, str]:
        if self.closing:
            return Reason.SHUTDOWN, "the fleet is being shut down"
        if one.id in self.kept:
            return rolling.why(self, one)
        pool = self._pool(one)
        if pool is None:
            return Reason.SCALE_DOWN, f"no pool is called {one.pool}"
        if one.id in self.outdated and self.rosters[one.pool].missing:
            return rolling.why(self, one)
        if (one.id, one.generation) in self.desired.orders.leaving:
            return Reason.SCALE_DOWN, "an operator sends it away"
        return Reason.SCALE_DOWN, f"{pool.name} wants {pool.size}"

    def take_away(self, one: Instance, why: Reason, message: str) -> None:
        """Drain what may have streams; stop the rest at once."""
        if one.id in self.lost:
            return
        if why in seats.RETURNING:
            self.taken.add(one.id)
        if one.id in self.breaks:
            message += f"; it goes first, because {self.breaks[one.id]}"
        self.ready.discard(one.id)
        if self.wishes.force:
            self.actions.append(Stop(one.id, Rung.KILL, why, message))
        elif one.phase in (Phase.READY, Phase.UNKNOWN) or _serves_again(one):
            self.actions.append(Drain(one.id, why, message, self.deadline(one)))
        else:
            self.actions.append(Stop(one.id, Rung.TERM, why, message))

    def deadline(self, one: Instance) -> float:
        pool = self._pool(one)
        deadline = self.now + (pool.drain_timeout_s if pool else ORPHAN_DRAIN_S)
        return deadline if self.wishes.close_by is None else min(deadline, self.wishes.close_by)

    def strands(self, one: Instance) -> bool:
        """True when taking `one` leaves a wanted role without a READY instance."""
        if self.closing:
            return False
        left = [self.by_id[id_] for id_ in self.ready if id_ != one.id]
        if self.desired.mode is Mode.CHUNKED:
            return not left and any(pool.size for pool in self.desired.pools)
        roles = (Role.PREFILL, Role.DECODE) if one.role is Role.BOTH else (one.role,)
        return any(
            self._wants(role) and not any(rolling.serves(x, role) for x in left) for role in roles
        )

    def _wants(self, role: Role) -> bool:
        return any(pool.size for pool in self.desired.pools if pool.role in (role, Role.BOTH))

    def remark(self) -> None:
        """Say what an operator would otherwise have to guess."""
        passed = {one.id for one in silence.passed_over(self.observed)}
        for one in self.observed:
            if one.phase is Phase.READY and silence.is_silent(one):
                who = "others answer, so it gets no new requests"
                alone = "nobody else answers, so requests still go to it"
                self.notes.append(f"{one.id} {one.message}: {who if one.id in passed else alone}")
        if self.desired.mode is not Mode.PD:
            return
        for one, peer in pairing.lonely(self.observed):
            self.notes.append(f"{one.id} has no live {peer} instance to hand over with yet")
        if self.ready and not self.pairs.proved:
            self.notes.append(
                "PD is wanted, but no pair has proved a handoff yet: requests are served whole"
            )


def _serves_again(one: Instance) -> bool:
    """It is tried anew, but was READY before: routers may never have stopped sending to it."""
    return one.phase is Phase.PROBING and one.vitals.ready_at is not None


def _is_coming_back(one: Instance) -> bool:
    """It served before a restart of pdctl; it takes its turn once it is READY again."""
    seen = one.phase is Phase.UNKNOWN and one.vitals.ready_at is not None
    return one.reason is Reason.ADOPTED and (seen or _serves_again(one))
