"""Applied plans under way: which steps have been seen to happen, and how each run ended.

Law: a run is done when the fleet is as desired, or when all that was foreseen has happened (where
all of it was: a folded plan is done with the fleet); what the feed did not show is not counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from pdctl.domain.events import Event, EventKind
from pdctl.domain.fleet import Fleet
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.rehearsal import settled, to_do
from pdctl.domain.runs import RunRecord, RunState

NAMED = 3
"""Steps that a sentence names before it counts the others."""
RESUMED = "resumed after a restart of pdctl"


@dataclass(slots=True)
class Run:
    """One applied plan in the making; `record` is how it stands."""

    record: RunRecord
    unsaved: bool = False
    """It has moved since it was last stored."""
    _open: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for step in self.record.steps:
            if step.number not in self.record.done:
                self._open.setdefault((step.kind, step.subject), []).append(step.number)

    @property
    def running(self) -> bool:
        """Not over yet."""
        return self.record.state is RunState.RUNNING

    def resume(self) -> None:
        """Another control plane has taken it up."""
        self._set(resumed=self.record.resumed + 1, message=RESUMED)

    def see(self, event: Event) -> None:
        """Tick off what `event` shows to have happened."""
        self._see_pool(event)
        for kind in _shown(event):
            numbers = self._open.get((kind, event.subject))
            if numbers:
                self._tick(numbers.pop(0))

    def _see_pool(self, event: Event) -> None:
        """A reassignment shows in the pool that an instance is told with."""
        if event.kind is EventKind.INSTANCE_CHANGED:
            pools = {
                step.number: step.pool for step in self.record.steps if step.kind == "reassign"
            }
            numbers = self._open.get(("reassign", event.subject), [])
            for number in [n for n in numbers if pools[n] == event.data.get("pool")]:
                numbers.remove(number)
                self._tick(number)

    def judge(self, fleet: Fleet, at: float) -> bool:
        """Look whether it is over; True when it just ended."""
        if not self.running:
            return False
        self._count(fleet)
        run, given_up = self.record, self._given_up(fleet)
        if fleet.desired.revision != run.revision:
            self.end(RunState.CANCELLED, at, f"revision {fleet.desired.revision} took its place")
        elif run.rest is None and len(run.done) == len(run.steps):
            self.end(RunState.DONE, at)
        elif settled(fleet.desired, fleet.instances, fleet.pairs):
            if run.resumed:  # nobody watched for a while, and it has all come about
                self._set(done=tuple(step.number for step in run.steps))
            self.end(RunState.DONE, at, _spared(self.record))
        elif given_up:
            self.end(RunState.FAILED, at, given_up)
        else:
            self._say(_troubles(fleet))
            return False
        return True

    def end(self, state: RunState, at: float, message: str = "") -> None:
        """It is over."""
        self._set(state=state, ended_at=at)
        self._say(message)

    def _count(self, fleet: Fleet) -> None:
        """Instances in place, where not all steps are known."""
        if (rest := self.record.rest) is not None:
            left = sum(to_do(fleet.desired, fleet.instances).values())
            if (now := max(0, rest.total - left)) != self.record.in_place:
                self._set(in_place=now)

    def _say(self, message: str) -> None:
        resumed = RESUMED if self.record.resumed else ""
        said = "; ".join(part for part in (resumed, message) if part)
        if said != self.record.message:
            self._set(message=said)

    def _tick(self, number: int) -> None:
        self._set(done=(*self.record.done, number))

    def _set(self, **changes: object) -> None:
        self.record = replace(self.record, **changes)  # type: ignore[arg-type]
        self.unsaved = True

    def _given_up(self, fleet: Fleet) -> str:
        for one in fleet.instances:
            if one.phase is Phase.FAILED and one.id not in self.record.broken_before:
                return (
                    f"{one.id} is given up: {one.message}. What served before serves on; "
                    "`pdctl undo` goes back"
                )
        return ""

    def summary(self) -> dict[str, object]:
        """For the feed."""
        run = self.record
        kinds = Counter(step.kind for step in run.steps)
        about = {"about": list(run.about)} if run.about else {}
        return {
            "operation": run.id, "plan": run.plan, "change": "; ".join(run.said),
            "state": run.state.value, "steps_done": len(run.done), "steps_total": len(run.steps),
            "steps": dict(kinds), **about,
        }  # fmt: skip


def _troubles(fleet: Fleet) -> str:
    """What is being tried again, while it goes on."""
    return "; ".join(
        f"{one.id} failed and is tried again, and no other is replaced meanwhile: {one.message}"
        for one in fleet.instances
        if one.phase is Phase.BACKOFF
    )


def _spared(run: RunRecord) -> str:
    """Why fewer steps were seen than had been foreseen, of a run that reached its end."""
    left = [f"{one.kind} {one.subject}" for one in run.steps if one.number not in run.done]
    if not left or run.rest is not None:
        return ""
    some = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if left[NAMED:] else "")
    were = "step was" if len(left) == 1 else "steps were"
    return f"the fleet is as wanted; {len(left)} {were} not needed any more: {some}"


def _shown(event: Event) -> tuple[str, ...]:
    """Kinds of steps that `event` proves to be over."""
    data = event.data
    if event.kind is EventKind.PAIR_CHANGED:
        return ("probe",) if data.get("state") in ("ok", "failing") else ()
    if event.kind is EventKind.STOP_RUNG:
        return ("undrain",) if data.get("rung") == "back_in_rotation" else ()
    if event.kind is not EventKind.INSTANCE_CHANGED:
        return ()
    phase = data.get("phase")
    if phase == Phase.DRAINING:
        return ("drain",) if data.get("reason") == Reason.HELD else ()
    return _PHASES.get(str(phase), ())


_PHASES: dict[str, tuple[str, ...]] = {
    "None": ("forget",),
    Phase.PENDING: ("retry",),
    Phase.WARMING: ("launch",),
    Phase.PROBING: ("warm",),
    Phase.READY: ("ready",),
    Phase.STOPPING: ("drain",),
    Phase.STOPPED: ("stop", "kill"),
    Phase.BACKOFF: ("kill",),
    Phase.FAILED: ("give_up",),
}
