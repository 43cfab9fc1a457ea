"""/plans and /operations: see what a change will do, apply it by id, follow it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from pdctl.api.context import Asking, Plane, Who, only
from pdctl.api.errors import problem
from pdctl.api.etag import Expected
from pdctl.api.planviews import operation_view, plan_view
from pdctl.contract.plans import (
    ChangeBody,
    OperationPage,
    OperationView,
    PlanPage,
    PlanPost,
    PlanView,
)
from pdctl.domain.access import Role, new_program
from pdctl.domain.change import Change
from pdctl.domain.topology import FleetSpec
from pdctl.fleetfile import ERROR, Mistake, check

log = logging.getLogger(__name__)
router = APIRouter(tags=["plans"])
LARGEST = 2**31 - 1
PlanId = Annotated[str, Path(alias="id", description='For example "plan-1f3a9c2e".')]
OperationId = Annotated[str, Path(alias="id", description='For example "op-7b20c4d1".')]
NO_PATH = "posted.toml"


@router.post("/plans", operation_id="makePlan", status_code=201, response_model=PlanView)
async def make_plan(
    body: PlanPost, *, request: Request, response: Response, plane: Plane, who: Who, asking: Asking
) -> PlanView | Response:
    """Rehearse a change on the fleet as it is now. Nothing is changed: this is the dry run."""
    if body.change.file is not None:
        only(Role.ADMIN, asking, "A fleet file names what is executed: planning one")
    fleet, mistakes = await read_file(body.change.file, body.change.file_path)
    errors = [one for one in mistakes if one.severity == ERROR]
    if errors:
        return bad_file(errors)
    change = _change(body.change, fleet)
    record = await plane.plans.make(change, actor=who.actor, source=who.source)
    response.headers["location"] = f"{request.url.path}/{record.id}"
    view = plan_view(plane, record)
    view.warnings = [f"line {one.line}: {one}" for one in mistakes]
    return view


@router.get("/plans", operation_id="listPlans")
async def list_plans(plane: Plane) -> PlanPage:
    """The plans that are kept, newest first, without their steps."""
    records = plane.plans.plans()
    return PlanPage(items=[plan_view(plane, record, steps=False) for record in records])


@router.get("/plans/{id}", operation_id="getPlan")
async def get_plan(id_: PlanId, plane: Plane) -> PlanView:
    """One plan, and whether it is stale."""
    return plan_view(plane, plane.plans.plan(id_))


@router.post("/plans/{id}/apply", operation_id="applyPlan", status_code=202)
async def apply_plan(
    id_: PlanId, *, request: Request, response: Response, plane: Plane, who: Who, asking: Asking,
    expected: Expected = None,
) -> OperationView:  # fmt: skip
    """Do what the plan shows; 409 `plan_stale` when the fleet has moved since it was made."""
    record = plane.plans.plan(id_)
    if record.verb != "undo" and new_program(record.before, record.after):
        only(Role.ADMIN, asking, "This plan changes what is executed: applying it")
    run = await plane.plans.apply(id_, actor=who.actor, source=who.source, expected=expected)
    root = request.url.path.partition("/plans/")[0]
    response.headers["location"] = f"{root}/operations/{run.id}"
    return operation_view(run)


@router.get("/operations", operation_id="listOperations")
async def list_operations(
    plane: Plane,
    *,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST, description="`next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Operations in a page.")] = 50,
) -> OperationPage:
    """Applied plans, newest first, those of earlier starts of this server included."""
    note = ""
    try:
        found = await plane.plans.runs.page(before, limit + 1)
    except Exception:
        log.exception("the store did not answer a query for operations")
        note = "The store does not answer: only operations held in memory are shown."
        found = [one for one in plane.plans.runs.all() if before is None or one.revision < before]
    shown = found[:limit]
    return OperationPage(
        items=[operation_view(run) for run in shown],
        next=shown[-1].revision if len(found) > limit else None,
        note=note,
    )


@router.get("/operations/{id}", operation_id="getOperation")
async def get_operation(id_: OperationId, plane: Plane) -> OperationView:
    """One applied plan: each step, how far it is, or how it ended."""
    return operation_view(await plane.plans.runs.find(id_), steps=True)


@router.post("/operations/{id}/cancel", operation_id="cancelOperation", status_code=202)
async def cancel_operation(
    id_: OperationId, plane: Plane, who: Who, expected: Expected = None
) -> OperationView:
    """Go back to the fleet that was desired before; what still drains returns to work."""
    run = await plane.plans.cancel(id_, actor=who.actor, source=who.source, expected=expected)
    return operation_view(run)


async def read_file(
    text: str | None, path: str | None
) -> tuple[FleetSpec | None, tuple[Mistake, ...]]:
    """The fleet of a posted file, and what is wrong with it."""
    if text is None:
        return None, ()
    return await asyncio.to_thread(check, text, FilePath(path or NO_PATH))


def bad_file(errors: list[Mistake]) -> Response:
    """Every mistake of a posted file, with its line."""
    first = errors[0]
    return problem(
        422,
        "bad_fleet_file",
        f"Line {first.line}: {first.message}",
        first.hint or "`pdctl validate FILE` shows every mistake with its line.",
        errors=[
            {
                "line": one.line, "column": one.column, "key": one.key,
                "message": one.message, "hint": one.hint,
            }
            for one in errors
        ],
    )  # fmt: skip


def _change(body: ChangeBody, fleet: FleetSpec | None) -> Change:
    return Change(
        mode=body.mode,
        sizes=tuple(body.sizes.items()),
        fleet=fleet,
        restart=tuple(body.restart),
        drain=tuple(body.drain),
        undrain=tuple(body.undrain),
        stop=tuple(body.stop),
        move=tuple(body.move.items()),
        router=tuple(body.router.items()),
    )
