"""Plans: rehearsed, kept, and applied by id when the world has not moved since.

Law: a plan changes nothing. Applying one writes exactly the fleet it was rehearsed with, or refuses
and says what moved.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pdctl import plugins
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.operations import refuse_mode
from pdctl.control.run_book import RunBook
from pdctl.control.timing import Timing
from pdctl.domain import audit, live, outlook
from pdctl.domain.change import Change, Changed, Refusal, apply_to
from pdctl.domain.errors import ConflictError, NotFoundError, OperatorError
from pdctl.domain.events import Event, EventKind
from pdctl.domain.fleet import Fleet
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.pace import Pace
from pdctl.domain.rehearsal import Rehearsal, Step, capacity, rehearse
from pdctl.domain.runs import RunRecord, RunState
from pdctl.domain.topology import FleetSpec, Role
from pdctl.domain.undo import go_back
from pdctl.ports import Clock

if TYPE_CHECKING:
    from pdctl.control.operations import Operations

KEEP = 200
"""Newest plans kept."""
NOTHING = "nothing_to_do"
"""Code of the refusal that is none: the fleet is as was asked for."""


@dataclass(frozen=True, slots=True)
class Base:
    """The world that a plan rests on: who is there, which start, doing what, holding what."""

    revision: int
    instances: tuple[tuple[str, int, str, str], ...]

    @property
    def digest(self) -> str:
        """Names this world."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


@dataclass(slots=True)
class PlanRecord:
    """A change, what it would do, and what came of it."""

    id: str
    author: str
    source: str
    created_at: float
    """Wall time, UTC seconds."""
    said: tuple[str, ...]
    before: FleetSpec
    after: FleetSpec
    base: Base
    rehearsal: Rehearsal
    refused: tuple[Refusal, ...]
    risks: tuple[str, ...]
    operation: str | None = None
    """The operation that it was applied as."""
    verb: str = "apply"
    about: tuple[str, ...] = ()
    """Instances and pools that the change names."""


@dataclass(slots=True)
class PlanBook:
    """Makes plans, keeps the newest, applies them, and follows what comes of them."""

    state: FleetState
    feed: Feed
    clock: Clock
    operations: Operations
    timing: Timing = field(default_factory=Timing)
    runs: RunBook = field(init=False)
    _plans: dict[str, PlanRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = RunBook(self.state, self.feed, self.clock, self.operations.store)
        self.feed.listen(self._hear)

    def recall(self, events: Iterable[Event]) -> None:
        """Learn durations from facts of earlier days, oldest first."""
        waits = self._waits()
        for event in events:
            self.timing.learn(event, waits)

    def plans(self) -> list[PlanRecord]:
        """Newest first."""
        return list(reversed(self._plans.values()))

    def plan(self, id_: str) -> PlanRecord:
        """The plan called `id_`; NotFoundError when it is not kept."""
        if (found := self._plans.get(id_)) is None:
            raise NotFoundError(
                "no_such_plan", f"There is no plan {id_!r}.", f"The newest {KEEP} are kept."
            )
        return found

    async def make(self, change: Change, *, actor: str, source: str) -> PlanRecord:
        """Rehearse `change` on the fleet as it is now; nothing is changed by it."""

        def asked(fleet: Fleet) -> Changed:
            return apply_to(change, fleet.desired, fleet.instances)

        verb, about = audit.verb_of(change), audit.named_by(change)
        return await self._plan(asked, actor, source, verb, about)

    async def make_undo(self, past: FleetSpec, *, actor: str, source: str) -> PlanRecord:
        """Rehearse the way back to a fleet that was desired before."""

        def asked(fleet: Fleet) -> Changed:
            return go_back(past, fleet.desired, fleet.instances)

        return await self._plan(asked, actor, source, "undo")

    async def _plan(
        self, asked: Callable[[Fleet], Changed], actor: str, source: str, verb: str,
        about: tuple[str, ...] = (),
    ) -> PlanRecord:  # fmt: skip
        fleet, now = self.state.fleet, self.clock.monotonic()
        if self.state.wishes.close_by is not None:
            raise ConflictError("shutting_down", "The fleet is being shut down.")
        changed = _checked(asked(fleet), fleet)
        # beside the loop: streams must not wait for a plan
        pace = self.timing.pace.copy()
        rehearsal, refused = await asyncio.to_thread(self._rehearse, fleet, changed, now, pace)
        record = PlanRecord(
            id=f"plan-{secrets.token_hex(4)}", author=actor, source=source,
            created_at=self.clock.now(), said=changed.said, before=fleet.desired,
            after=changed.fleet, base=base_of(fleet), rehearsal=rehearsal,
            refused=(*changed.refused, *refused),
            risks=tuple(outlook.risks(fleet.desired, changed.fleet, fleet.instances, rehearsal)),
            verb=verb, about=about,
        )  # fmt: skip
        self._tell_refused(record)
        self._plans[record.id] = record
        while len(self._plans) > KEEP:
            del self._plans[next(iter(self._plans))]
        return record

    def _tell_refused(self, record: PlanRecord) -> None:
        """What can never be applied was asked for and refused, whichever face asked; once,
        however often it is planned in a row."""
        last = next(reversed(self._plans.values()), None)
        if not _hopeless(record) or (last is not None and _asked(last) == _asked(record)):
            return
        data = {
            "verb": record.verb, "actor": record.author, "source": record.source,
            **_told(record), "before": audit.in_words(record.before) if record.said else "",
            "outcome": "refused", "message": str(_unfit(record)),
        }  # fmt: skip
        self.feed.publish(EventKind.OPERATION, "fleet", data)

    async def apply(
        self, id_: str, *, actor: str, source: str, expected: frozenset[int] | None = None,
        unseen: bool = False,
    ) -> RunRecord:  # fmt: skip
        """Want the fleet that the plan was rehearsed with; ConflictError when it cannot be now.

        A plan that nobody has looked at (`unseen`) needs only the same revision, not the same
        phases of instances.
        """
        record, run_id = self.plan(id_), f"op-{secrets.token_hex(4)}"
        if record.refused:
            raise _unfit(record)  # as the log has said since it was planned

        def still(now: FleetSpec) -> FleetSpec:
            if record.operation is not None:
                raise ConflictError(
                    "plan_applied", f"{id_} was applied already, as {record.operation}.",
                    "Make a new plan.",
                )  # fmt: skip
            base = Base(record.base.revision, ()) if unseen else record.base
            here = Base(now.revision, ()) if unseen else base_of(self.state.fleet)
            if moved := difference(base, here):
                raise ConflictError(
                    "plan_stale", f"The fleet has moved since {id_} was made: {moved}.",
                    "Make the plan again and read it.",
                )  # fmt: skip
            return replace(record.after, revision=now.revision)

        def run(desired: FleetSpec) -> RunRecord:
            return self._run(run_id, record, desired, actor, source)

        await self.operations.change_fleet(
            still, verb=record.verb, told={**_told(record), "operation": run_id},
            reason="; ".join(record.said), actor=actor, source=source, expected=expected,
            run=run, then=self.runs.begin,
        )  # fmt: skip
        record.operation = run_id
        return self.runs.get(run_id)

    async def cancel(
        self, id_: str, *, actor: str, source: str, expected: frozenset[int] | None = None
    ) -> RunRecord:
        """Want the fleet that was desired before; what can be called back comes back."""
        run = await self.runs.find(id_)
        if run.state is not RunState.RUNNING:
            raise ConflictError("not_running", f"{id_} is {run.state} and cannot be cancelled.")
        with self.runs.held(id_):
            return await self._cancel(run, actor, source, expected)

    async def _cancel(
        self, run: RunRecord, actor: str, source: str, expected: frozenset[int] | None
    ) -> RunRecord:
        id_, before = run.id, await self._before(run)

        def back(now: FleetSpec) -> FleetSpec:
            if now.revision != run.revision:
                raise ConflictError("not_running", f"Another change took the place of {id_}.")
            return before

        def ended(_: FleetSpec) -> RunRecord:
            message = f"cancelled by {actor}; the fleet goes back"
            now = self.runs.get(id_)
            return replace(
                now, state=RunState.CANCELLED, ended_at=self.clock.now(), message=message
            )

        await self.operations.change_fleet(
            back, verb="cancel", told={"operation": id_, "plan": run.plan, **_about(run.about)},
            reason=f"{id_} cancelled", actor=actor, source=source, expected=expected,
            run=ended, then=self.runs.close,
        )  # fmt: skip
        return self.runs.get(id_)

    async def _before(self, run: RunRecord) -> FleetSpec:
        """The fleet that was desired before a run: of its plan, or after a restart of the store."""
        if (record := self._plans.get(run.plan)) is not None:
            return record.before
        if (stored := await self.operations.store.revision(run.revision - 1)) is None:
            raise ConflictError(
                "no_way_back", f"The fleet before {run.id} is not known any more.",
                "Plan the fleet that you want.",
            )  # fmt: skip
        return stored.fleet

    def _rehearse(
        self, fleet: Fleet, changed: Changed, now: float, pace: Pace
    ) -> tuple[Rehearsal, list[Refusal]]:
        """How the change goes, and what cannot be reached by it."""
        wishes = self.state.wishes

        def play(desired: FleetSpec) -> Rehearsal:
            return rehearse(desired, fleet.instances, fleet.pairs, now, pace=pace, wishes=wishes)

        if changed.refused:
            here = (capacity(fleet.instances, fleet.pairs, 0.0),)
            return Rehearsal((), here, 0.0, False, fleet.instances, ()), []
        ahead = play(changed.fleet)
        if switched := _switched(fleet.desired, changed.fleet):
            ahead = replace(ahead, steps=_with_route(ahead.steps, switched))
        refused = outlook.refusals(changed.fleet, ahead)
        if refused:
            sizes = {pool.name: pool.size for pool in fleet.desired.pools}
            grown = {p.name for p in changed.fleet.pools if p.size > sizes.get(p.name, 0)}
            already = outlook.short(fleet.desired, play(fleet.desired)) - grown
            refused = outlook.refusals(changed.fleet, ahead, already)
        return ahead, refused

    def _run(
        self, id_: str, record: PlanRecord, desired: FleetSpec, actor: str, source: str
    ) -> RunRecord:
        steps = record.rehearsal.steps
        broken = [one.id for one in self.state.fleet.instances if one.phase is Phase.FAILED]
        return RunRecord(
            id=id_, plan=record.id, revision=desired.revision, said=record.said, actor=actor,
            source=source, started_at=self.clock.now(), steps=steps, about=record.about,
            broken_before=tuple(broken),
            done=tuple(step.number for step in steps if step.kind == "route"),
            rest=record.rehearsal.rest,
        )  # fmt: skip

    def _hear(self, event: Event) -> None:
        """A fact: history for the next plan, progress of this one."""
        if event.kind is not EventKind.REQUEST_FINISHED:
            self.timing.learn(event, self._waits())
            self.runs.hear(event)

    def _waits(self) -> dict[str, float]:
        desired = self.state.fleet.desired
        lease_s = float(desired.connector.lease_s)
        return {pool.name: lease_s for pool in desired.pools if pool.role is not Role.DECODE}


def _told(record: PlanRecord) -> dict[str, Any]:
    """What the operations log says of a plan."""
    return {
        "plan": record.id, "change": "; ".join(record.said),
        "after": f"{record.after.shape}, {record.after.mode}", **_about(record.about),
    }  # fmt: skip


def _hopeless(record: PlanRecord) -> bool:
    """It can never be applied, and not because the fleet is like that already."""
    return any(one.code != NOTHING for one in record.refused)


def _asked(record: PlanRecord) -> tuple[object, ...]:
    """Who was refused what, and why."""
    return record.author, record.source, record.verb, record.about, record.refused


def _about(names: Sequence[str]) -> dict[str, list[str]]:
    """What an event says of the instances and pools that its verb names."""
    return {"about": list(names)} if names else {}


def _unfit(record: PlanRecord) -> ConflictError:
    """Why a plan with refusals cannot be applied."""
    first = record.refused[0]
    why = first.message.rstrip(".")
    return ConflictError("plan_refused", f"{record.id} cannot be applied: {why}.", first.hint)


def base_of(fleet: Fleet) -> Base:
    """What of `fleet` a plan rests on."""
    return Base(
        fleet.desired.revision,
        tuple((one.id, one.generation, one.phase.value, _holds(one)) for one in fleet.instances),
    )


def difference(base: Base, now: Base) -> str:
    """What moved between two worlds, in words; empty when nothing did."""
    said = []
    if base.revision != now.revision:
        said.append(f"the desired fleet is at revision {now.revision}, it was {base.revision}")
    old, new = {one[0]: one for one in base.instances}, {one[0]: one for one in now.instances}
    for id_, one in new.items():
        was = old.get(id_)
        if was is None:
            said.append(f"{id_} is new")
        elif was[1] != one[1]:
            said.append(f"{id_} has been started again")
        elif was[2] != one[2]:
            said.append(f"{id_} is {one[2]}, it was {was[2]}")
        elif was[3] != one[3]:
            said.append(f"{id_} holds {one[3]}, it held {was[3]}")
    said += [f"{id_} has left" for id_ in old if id_ not in new]
    shown = said[:4]
    return "; ".join([*shown, f"and {len(said) - 4} more"] if len(said) > 4 else shown)


def _holds(one: Instance) -> str:
    slot = one.slot
    parts = (f"ports {slot.http_port},{slot.side_channel_port}", slot.device, slot.core)
    return " ".join(part for part in parts if part)


def _checked(changed: Changed, fleet: Fleet) -> Changed:
    """With what only the control plane knows to refuse."""
    refused = list(changed.refused)
    if not refused and changed.fleet.mode is not fleet.desired.mode:
        try:
            refuse_mode(changed.fleet, changed.fleet.mode)
        except ConflictError as error:
            refused.append(Refusal(error.code, error.message.rstrip("."), error.hint))
    if not refused:
        try:
            wanted = changed.fleet
            live.refuse_unknown(wanted.router, plugins.names(plugins.POLICIES), wanted.slos)
        except OperatorError as error:
            refused.append(Refusal(error.code, error.message.rstrip("."), error.hint))
    if not refused and not changed.said:
        refused.append(Refusal(NOTHING, "the fleet is like that already"))
    return replace(changed, refused=tuple(refused))


def _switched(old: FleetSpec, new: FleetSpec) -> list[str]:
    """What is different for requests from now on, in words."""
    said = [f"new requests take {new.mode} from now on"] if old.mode is not new.mode else []
    return [*said, *live.differences(old.router, new.router), *live.unpublished(old, new)]


def _with_route(steps: Sequence[Step], switched: Sequence[str]) -> tuple[Step, ...]:
    """Routing first: it is in force the moment that the plan is applied."""
    route = Step(1, "route", "fleet", 0.0, 0.0, why="; ".join(switched))
    return (route, *(replace(step, number=step.number + 1) for step in steps))
