"""/mode: how new requests are routed. Switching it restarts nothing and drops nothing."""

from __future__ import annotations

from fastapi import APIRouter, Response

from pdctl.api.context import Plane, Who
from pdctl.api.etag import Expected, tag
from pdctl.api.views import mode_view
from pdctl.contract.resources import ModePut, ModeView

router = APIRouter(prefix="/mode", tags=["mode"])


@router.get("", operation_id="getMode")
async def get_mode(plane: Plane, response: Response) -> ModeView:
    """The mode in force."""
    tag(response, plane)
    return mode_view(plane)


@router.put("", operation_id="putMode")
async def put_mode(
    body: ModePut, plane: Plane, who: Who, response: Response, expected: Expected = None
) -> ModeView:
    """Route new requests by this mode from now on; asking for the present one changes nothing."""
    await plane.operations.set_mode(
        body.mode, actor=who.actor, source=who.source, expected=expected
    )
    tag(response, plane)
    return mode_view(plane)
