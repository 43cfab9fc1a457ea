"""/marks: moments that operators name, to look at what was before and after."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from pdctl.api.context import Plane, Who
from pdctl.api.views import moment
from pdctl.contract.compare import MarkBody, MarkPage, MarkView
from pdctl.control.marks import Marks
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import ConflictError
from pdctl.domain.minutes import Mark

router = APIRouter(prefix="/marks", tags=["latency"])
Name = Annotated[str, Path(max_length=64)]


@router.get("", operation_id="listMarks")
async def list_marks(plane: Plane) -> MarkPage:
    """All named moments, newest first."""
    return MarkPage(items=[mark_view(one) for one in await _marks(plane).all()])


@router.post("", operation_id="putMark", status_code=201)
async def put_mark(body: MarkBody, plane: Plane, who: Who) -> MarkView:
    """Name this moment; a name that is there already is moved to it."""
    return mark_view(await _marks(plane).put(body.name, actor=who.actor, source=who.source))


@router.delete("/{name}", operation_id="dropMark", status_code=204)
async def drop_mark(name: Name, plane: Plane, who: Who) -> None:
    """Forget a moment's name."""
    await _marks(plane).drop(name, actor=who.actor, source=who.source)


def mark_view(mark: Mark) -> MarkView:
    """A named moment."""
    return MarkView(name=mark.name, at=moment(mark.at), actor=mark.actor)


def _marks(plane: ControlPlane) -> Marks:
    if plane.marks is None:
        raise ConflictError("no_marks", "This pdctl keeps no marks.", "Use a newer pdctl.")
    return plane.marks
