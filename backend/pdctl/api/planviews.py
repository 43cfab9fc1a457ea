"""Plans and operations, domain to wire."""

from __future__ import annotations

from pdctl.api.views import moment
from pdctl.contract.plans import (
    CapacityView,
    DipView,
    OperationStepView,
    OperationView,
    PlanView,
    RefusedView,
    RestView,
    StepView,
)
from pdctl.control.plane import ControlPlane
from pdctl.control.plans import PlanRecord, base_of, difference
from pdctl.domain.outlook import dips
from pdctl.domain.rehearsal import Rest, Step
from pdctl.domain.runs import RunRecord, RunState

WAITING = 5
"""How many of the steps to come are named."""


def plan_view(plane: ControlPlane, record: PlanRecord, *, steps: bool = True) -> PlanView:
    """A plan, and what has moved since it was made."""
    ahead = record.rehearsal
    applied = record.operation is not None
    return PlanView(
        id=record.id,
        author=record.author,
        source=record.source,
        created_at=moment(record.created_at),
        change=list(record.said),
        revision=record.base.revision,
        digest=record.base.digest,
        stale="" if applied else difference(record.base, base_of(plane.state.fleet)),
        shape_before=record.before.shape,
        shape_after=record.after.shape,
        mode_before=record.before.mode,
        mode_after=record.after.mode,
        steps=[_step(step) for step in ahead.steps] if steps else [],
        capacity=[CapacityView.model_validate(point) for point in ahead.capacity],
        lowest=[DipView.model_validate(dip) for dip in dips(ahead.capacity, ahead.took_s)],
        expected_s=_round(ahead.took_s) or 0.0,
        rest=_rest(ahead.rest),
        refused=[RefusedView.model_validate(one) for one in record.refused],
        risks=list(record.risks),
        operation=record.operation,
    )


def operation_view(run: RunRecord, *, steps: bool = False) -> OperationView:
    """An applied plan as it stands."""
    done = set(run.done)
    left = [step for step in run.steps if step.number not in done]
    running = run.state is RunState.RUNNING
    return OperationView(
        id=run.id,
        plan=run.plan,
        change=list(run.said),
        actor=run.actor,
        source=run.source,
        state=run.state.value,
        message=run.message,
        steps_done=len(run.done),
        steps_total=len(run.steps),
        rest=_rest(run.rest),
        instances_done=run.in_place if run.rest else None,
        waiting_for=[f"{one.kind} {one.subject}" for one in left[:WAITING]] if running else [],
        revision=run.revision,
        expected_s=_round(_expected_s(run)) or 0.0,
        started_at=moment(run.started_at),
        ended_at=None if run.ended_at is None else moment(run.ended_at),
        steps=[
            OperationStepView(**_step(step).model_dump(), done=step.number in done)
            for step in run.steps
        ]
        if steps
        else [],
    )


def _expected_s(run: RunRecord) -> float:
    if run.rest is not None:
        return run.rest.took_s
    return max((step.ends_s or 0.0 for step in run.steps), default=0.0)


def _rest(rest: Rest | None) -> RestView | None:
    if rest is None:
        return None
    return RestView(
        left=dict(rest.left), total=rest.total, seen_s=_round(rest.seen_s) or 0.0,
        at_least=rest.at_least, words=rest.words,
    )  # fmt: skip


def _step(step: Step) -> StepView:
    slot = step.slot
    return StepView(
        number=step.number,
        kind=step.kind,
        subject=step.subject,
        pool=step.pool,
        role=step.role,
        device=slot.device if slot else "",
        core=slot.core if slot else "",
        ports=list(step.ports),
        streams=step.streams,
        lease_s=step.lease_s,
        starts_s=_round(step.starts_s) or 0.0,
        ends_s=_round(step.ends_s),
        samples=step.samples,
        why=step.why,
    )


def _round(seconds: float | None) -> float | None:
    """Milliseconds are finer than any guess."""
    return None if seconds is None else round(seconds, 3)
