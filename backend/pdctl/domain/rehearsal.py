"""A plan is a rehearsal: the planner itself, run over a toy world until it has nothing to do. Pure.

Law: what is shown is what the reconciler will do: both ask the same `plan()`. Only durations are
guesses, and each says what it is based on. What is too much to be shown is counted, never left out
without a word: then the steps are the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pdctl.domain import actions as do
from pdctl.domain import holding, pairing
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Pair, Slot
from pdctl.domain.lifecycle import Phase
from pdctl.domain.pace import Estimate, Pace, Span
from pdctl.domain.placement import Holding, ports, side_channels
from pdctl.domain.plan import plan
from pdctl.domain.stage import Stage
from pdctl.domain.topology import FleetSpec, Role, fingerprint

HORIZON_S = 24 * 3600.0
"""A rehearsal that has not ended by then never will."""
MAX_ROUNDS = 20_000
BUDGET = 40_000
"""Instances that the planner looks at, summed over rounds, before a rehearsal stops: a plan of 200
instances has to answer within a second, and the same on whatever machine."""
PAIRS = 16
"""So many untried pairs are as much work as one instance."""
_KINDS: dict[type, tuple[str, Span | None, str]] = {
    do.Launch: ("launch", Span.START, "up"),
    do.Warm: ("warm", Span.WARM, "warmed"),
    do.ProbePair: ("probe", Span.PROBE, "probed"),
    do.MarkReady: ("ready", None, ""),
    do.Drain: ("drain", Span.DRAIN, "quiet"),
    do.Undrain: ("undrain", None, ""),
    do.Stop: ("stop", Span.STOP, "ended"),
    do.Retry: ("retry", None, ""),
    do.GiveUp: ("give_up", None, ""),
    do.Forget: ("forget", None, ""),
    do.Reassign: ("reassign", None, ""),
}
"""Name of a step, what its duration is learnt from, and what ends it."""
KINDS = ("route", *(kind for kind, *_ in _KINDS.values()), "kill")


@dataclass(slots=True)
class Step:
    """One action, in the order in which it will be taken. Times are seconds from the start."""

    number: int
    kind: str
    """One of KINDS; "route": new requests take another mode."""
    subject: str
    """Instance id, "prefill-0>decode-1" for a probe, "fleet" for a mode."""
    starts_s: float
    ends_s: float | None = None
    """None: its end is not part of this plan."""
    pool: str = ""
    role: Role | None = None
    slot: Slot | None = None
    ports: tuple[int, ...] = ()
    streams: int = 0
    """Legs open on it when the plan was made, for what takes it out of rotation or ends it."""
    lease_s: float | None = None
    """How long un-pulled KV may keep it alive after its last stream."""
    why: str = ""
    samples: int | None = None
    """On how many observations its duration rests; 0: assumed; None: it takes no time."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many instances take new work from a moment on."""

    at_s: float
    prefill: int
    decode: int
    serving: int
    """READY instances of any role."""
    handoffs: bool = False
    """A pair of two READY ends has proved a handoff."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What goes on as the steps before it do, and was not rehearsed one by one."""

    left: tuple[tuple[str, int], ...]
    """(pool, instances of it that are still to come or to go)."""
    total: int
    """Instances that the whole change is about, of every pool."""
    seen_s: float
    """Where the rehearsal stopped, seconds from the start."""
    took_s: float
    """Seconds to the end of the change, derived from what was seen."""
    at_least: bool
    """It takes longer: of some pool, no instance was seen to its end."""

    @property
    def words(self) -> str:
        """For people."""
        pools = [f"{count} of {pool}" for pool, count in self.left]
        if not pools:
            return "what still goes on is not rehearsed"
        return f"the same goes on for {' and '.join(pools)}, not rehearsed one by one"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How a change is expected to go."""

    steps: tuple[Step, ...]
    capacity: tuple[Capacity, ...]
    took_s: float
    reached: bool
    """The desired fleet came about; else `instances` and `notes` say where it stuck."""
    instances: tuple[Instance, ...]
    notes: tuple[str, ...]
    rest: Rest | None = None
    """None: every step is there."""


def rehearse(
    desired: FleetSpec,
    observed: Sequence[Instance],
    pairs: Sequence[Pair],
    now: float,
    *,
    pace: Pace,
    wishes: do.Wishes | None = None,
    budget: int = BUDGET,
) -> Rehearsal:
    """From the observed fleet to `desired`. `now` is monotonic seconds, as for `plan`."""
    play = _Play(desired, now, pace, wishes or do.Wishes(), budget)
    play.stage.enter(observed, pairs)
    notes = play.run()
    reached, rest = play.settled(), None
    if play.budget < 0:
        rest = play.rest(observed)
        held = [one.role for one in observed if one.id in desired.orders.drained]
        play.capacity.append(_wanted(desired, held, rest.took_s, play.capacity[-1]))
    return Rehearsal(
        steps=tuple(play.steps),
        capacity=tuple(play.capacity),
        took_s=rest.took_s if rest else play.took_s(reached),
        rest=rest,
        reached=reached,
        instances=tuple(play.stage.instances.values()),
        notes=notes,
    )


def settled(desired: FleetSpec, instances: Iterable[Instance], pairs: Iterable[Pair]) -> bool:
    """True when every pool has its size of fresh instances in service (or held), and no others,

    and every pair of what serves has been tried.
    """
    orders = desired.orders
    renew, drained = set(orders.renew), set(orders.drained)
    prints = {pool.name: fingerprint(desired, pool) for pool in desired.pools}
    left = {pool.name: pool.size for pool in desired.pools}
    serving = set[InstanceId]()
    for one in instances:
        in_place = holding.is_held(one) if one.id in drained else one.phase is Phase.READY
        fresh = prints.get(one.pool) == one.fingerprint and (one.id, one.generation) not in renew
        if not (in_place and fresh):
            return False
        left[one.pool] -= 1
        if one.phase is Phase.READY:
            serving.add(one.id)
    return not any(left.values()) and not any(
        pair.state in (pairing.UNTRIED, pairing.PROBING)
        and pair.prefill in serving
        and pair.decode in serving
        for pair in pairs
    )


def to_do(desired: FleetSpec, instances: Iterable[Instance]) -> dict[str, int]:
    """How many instances of each pool have yet to come or to go; none where all are in place."""
    renew, members, fresh = set(desired.orders.renew), Counter[str](), Counter[str]()
    prints = {pool.name: fingerprint(desired, pool) for pool in desired.pools}
    for one in instances:
        members[one.pool] += 1
        in_place = one.phase is Phase.READY or holding.is_held(one)
        same = prints.get(one.pool) == one.fingerprint and (one.id, one.generation) not in renew
        fresh[one.pool] += in_place and same
    sizes: dict[str, int] = {pool.name: pool.size for pool in desired.pools}
    left = {
        name: max(sizes.get(name, 0) - fresh[name], members[name] - sizes.get(name, 0))
        for name in dict.fromkeys([*sizes, *members])
    }
    return {name: count for name, count in left.items() if count > 0}


def _wanted(desired: FleetSpec, held: Sequence[Role], at_s: float, last: Capacity) -> Capacity:
    """What serves when all of `desired` is there, but for those that are `held`."""
    sizes = {
        role: sum(pool.size for pool in desired.pools if pool.role is role) - held.count(role)
        for role in Role
    }
    both = sizes[Role.BOTH]
    return Capacity(
        at_s, sizes[Role.PREFILL] + both, sizes[Role.DECODE] + both, sum(sizes.values()),
        last.handoffs,
    )  # fmt: skip


def capacity(instances: Iterable[Instance], pairs: Iterable[Pair], at_s: float) -> Capacity:
    """Who takes new work now."""
    ready = {one.id: one.role for one in instances if one.phase is Phase.READY}
    roles = list(ready.values())
    both = roles.count(Role.BOTH)
    hands_over = any(
        pair.state == pairing.OK and pair.prefill in ready and pair.decode in ready
        for pair in pairs
    )
    return Capacity(
        at_s, roles.count(Role.PREFILL) + both, roles.count(Role.DECODE) + both, len(roles),
        hands_over,
    )  # fmt: skip


@dataclass(slots=True)
class _Play:
    """One rehearsal; lives for one call."""

    desired: FleetSpec
    began: float
    pace: Pace
    wishes: do.Wishes
    budget: int
    """Below 0: it was stopped."""
    stage: Stage = field(init=False)
    steps: list[Step] = field(default_factory=list)
    capacity: list[Capacity] = field(default_factory=list)
    _open: dict[tuple[str, str], Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stage = Stage(self.desired, self.began, self.pace, self._told)

    def run(self) -> tuple[str, ...]:
        """Until the desired fleet is there, or nothing more can happen; the last notes."""
        stage, notes = self.stage, tuple[str, ...]()
        for _ in range(MAX_ROUNDS):
            self._count()
            stage.sync()
            if self.settled():
                return ()
            instances = list(stage.instances.values())
            self.budget -= len(instances) + len(stage.pairs.open) // PAIRS
            if self.budget < 0:
                break
            ahead = plan(self.desired, instances, stage.pairs, stage.now, self.wishes)
            notes = ahead.notes
            at_once = [self._act(action) for action in ahead.actions]
            if any(at_once):
                continue
            times = [at for at in (stage.next_at(), ahead.next_look) if at is not None]
            if not times or min(times) > self.began + HORIZON_S:
                break
            stage.pass_time(min(times))
        return notes

    def rest(self, before: Iterable[Instance]) -> Rest:
        """What is left, at the pace of the pool that is slowest so far."""
        total = to_do(self.desired, before)
        left = to_do(self.desired, self.stage.instances.values())
        seen_s = self.stage.now - self.began
        last = {step.pool: step.starts_s for step in self.steps if step.kind == "ready"}
        done = {pool: total.get(pool, count) - count for pool, count in left.items()}
        ends = [
            last.get(pool, seen_s) * (1 + left[pool] / count)
            for pool, count in done.items()
            if count > 0
        ]
        return Rest(
            tuple(left.items()), sum(total.values()), seen_s, max([seen_s, *ends]),
            at_least=any(count < 1 for count in done.values()),
        )  # fmt: skip

    def took_s(self, reached: bool) -> float:
        """To the last step only, when what follows is waiting in vain."""
        if reached:
            return self.stage.now - self.began
        return max((step.ends_s or step.starts_s for step in self.steps), default=0.0)

    def settled(self) -> bool:
        """The desired fleet is there."""
        return settled(self.desired, self.stage.instances.values(), self.stage.pairs.open.values())

    def _act(self, action: do.Action) -> bool:
        if type(action) in _KINDS:
            self._write_down(action)
        return self.stage.act(action)

    def _write_down(self, action: do.Action) -> None:
        kind, span, end = _KINDS[type(action)]
        at = self.stage.now - self.began
        step = Step(len(self.steps) + 1, kind, _subject(action), at)
        if span is None:
            step.ends_s = at
        else:
            self._open[end, step.subject] = step
        one = self.stage.instances.get(InstanceId(step.subject))
        named = isinstance(action, do.Launch | do.Reassign)
        pool = str(getattr(action, "pool", "")) if named else one.pool if one else ""
        if isinstance(action, do.ProbePair):
            pool = self.stage.instances[action.decode].pool
        if span is not None:
            step.samples = self.pace.of(pool, span).samples
        step.pool = pool
        self._describe(step, action, one)
        self.steps.append(step)

    def _describe(self, step: Step, action: do.Action, one: Instance | None) -> None:
        """Whom it concerns and what that one holds."""
        spec = self.desired.pool(step.pool)
        slot = action.slot if isinstance(action, do.Launch) else one.slot if one else None
        step.role = one.role if one else spec.role if spec else None
        if isinstance(action, do.Reassign):
            step.role = spec.role if spec else None
            step.why = f"the same process, {step.role} from now on; its streams go on"
        if slot is not None:
            width = side_channels(self.desired, spec)
            step.slot = slot
            step.ports = tuple(ports(Holding(step.subject, step.pool, slot, width)))
        step.why = getattr(action, "message", step.why)
        if isinstance(action, do.Drain | do.Stop | do.Reassign) and one is not None:
            step.streams = one.inflight
        if isinstance(action, do.Stop) and action.rung is do.Rung.KILL:
            step.kind = "kill"
        if isinstance(action, do.Drain) and step.role is not Role.DECODE:
            step.lease_s = float(self.desired.connector.lease_s)

    def _told(self, what: str, whose: str) -> None:
        if (step := self._open.pop((what, whose), None)) is not None:
            step.ends_s = self.stage.now - self.began

    def _count(self) -> None:
        stage = self.stage
        found = capacity(
            stage.instances.values(), stage.pairs.proved.values(), stage.now - self.began
        )
        if len(self.capacity) > 1 and self.capacity[-1].at_s == found.at_s:
            self.capacity.pop()  # within one moment only its end counts; the first is the present
        last = self.capacity[-1] if self.capacity else None
        if last is None or replace(found, at_s=last.at_s) != last:
            self.capacity.append(found)


def _subject(action: do.Action) -> str:
    if isinstance(action, do.ProbePair):
        return f"{action.prefill}>{action.decode}"
    return str(action.id)


def expected(step: Step) -> Estimate | None:
    """How long a step takes, None when it takes no time or its end is not known."""
    if step.samples is None or step.ends_s is None:
        return None
    return Estimate(step.ends_s - step.starts_s, step.samples)
