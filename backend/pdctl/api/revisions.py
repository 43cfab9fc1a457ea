"""/revisions: every desired state that was accepted, what each changed, and the way back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from pdctl.api.context import Plane, Who
from pdctl.api.planviews import plan_view
from pdctl.api.views import moment
from pdctl.contract.history import (
    FieldChangeView,
    RevisionDetail,
    RevisionDiff,
    RevisionPage,
    RevisionView,
)
from pdctl.contract.plans import PlanView
from pdctl.control.plane import ControlPlane
from pdctl.domain.diff import diff, flat, shown, words
from pdctl.domain.errors import NotFoundError
from pdctl.ports import Revision

router = APIRouter(prefix="/revisions", tags=["revisions"])
LARGEST = 2**31 - 1
Number = Annotated[int, Path(ge=1, le=LARGEST, description="As in `revision` of the fleet.")]


@router.get("", operation_id="listRevisions")
async def list_revisions(
    plane: Plane,
    *,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST, description="`next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Revisions in a page.")] = 50,
) -> RevisionPage:
    """The history of the desired fleet, newest first: who, when, why, and what changed."""
    found = await plane.store.history(before=before, limit=limit + 1)
    pairs = zip(found, [*found[1:], None], strict=False)  # each beside the one before it
    items = [_view(plane, one, older) for one, older in pairs][:limit]
    more = len(found) > limit
    return RevisionPage(items=items, next=items[-1].revision if more else None)


@router.get("/{number}", operation_id="getRevision")
async def get_revision(number: Number, plane: Plane) -> RevisionDetail:
    """One revision, with every field of its fleet."""
    one = await _find(plane, number)
    older = await plane.store.history(before=number, limit=1)
    view = _view(plane, one, older[0] if older else None)
    values = {
        path: value if isinstance(value, bool | int | float) else shown(path, value)
        for path, value in flat(one.fleet).items()
    }
    return RevisionDetail(**view.model_dump(), fields=values)


@router.get("/{a}/diff/{b}", operation_id="diffRevisions")
async def diff_revisions(a: Number, b: Number, plane: Plane) -> RevisionDiff:
    """What differs between two revisions, field by field."""
    before, after = (await _find(plane, a)).fleet, (await _find(plane, b)).fleet
    changes = [
        FieldChangeView(
            path=one.path,
            before=shown(one.path, one.before),
            after=shown(one.path, one.after),
            words=one.words,
        )
        for one in diff(before, after)
    ]
    return RevisionDiff(a=a, b=b, changes=changes, words=words(before, after))


@router.post(
    "/{number}/plan", operation_id="planUndo", status_code=201, tags=["plans"]
)  # fmt: skip
async def plan_undo(
    number: Number, request: Request, response: Response, plane: Plane, who: Who
) -> PlanView:
    """Rehearse the way back to a revision, standing orders included; apply the plan by its id."""
    past = await _find(plane, number)
    record = await plane.plans.make_undo(past.fleet, actor=who.actor, source=who.source)
    root = request.url.path.partition("/revisions/")[0]
    response.headers["location"] = f"{root}/plans/{record.id}"
    return plan_view(plane, record)


async def _find(plane: ControlPlane, number: int) -> Revision:
    if (found := await plane.store.revision(number)) is None:
        newest = plane.state.fleet.desired.revision
        raise NotFoundError(
            "no_such_revision", f"There is no revision {number}.", f"The newest is {newest}."
        )
    return found


def _view(plane: ControlPlane, one: Revision, older: Revision | None) -> RevisionView:
    fleet = one.fleet
    return RevisionView(
        revision=fleet.revision,
        at=moment(one.at),
        author=one.actor,
        reason=one.reason,
        shape=fleet.shape,
        mode=fleet.mode,
        current=fleet.revision == plane.state.fleet.desired.revision,
        changes=[] if older is None else words(older.fleet, fleet),
    )
