"""/session: sign in with a password, say who one is, sign out; each in the operations log."""

from __future__ import annotations

import math
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from pdctl.api.context import Access, Asking, Caller, Plane, Who, peer_of
from pdctl.api.errors import problem
from pdctl.api.guard import presented
from pdctl.api.views import moment
from pdctl.contract.session import SessionView, SignIn, WhoView
from pdctl.control.plane import ControlPlane
from pdctl.domain.access import Unsigned
from pdctl.domain.events import EventKind

router = APIRouter(prefix="/session", tags=["session"])


@router.post("", operation_id="signIn", status_code=201, response_model=SessionView)
async def sign_in(
    body: SignIn, request: Request, plane: Plane, who: Who, access: Access
) -> SessionView | Response:
    """Begin a session: 12 hours, or until the password changes. Needs no token."""
    if access is None:
        return problem(
            404, "no_users", "This pdctl knows no users.",
            "`pdctl users add NAME` makes an access file; PDCTL_ACCESS_FILE names it.",
        )  # fmt: skip
    found = await access.sign_in(body.user, body.password, peer_of(request))
    if isinstance(found, Unsigned):
        if not found.wait_s:
            name = body.user if found.known else "somebody unknown"
            _tell(plane, "sign_in", replace(who, actor=name), "refused", "wrong name or password")
        return _refusal(found)
    _tell(plane, "sign_in", replace(who, actor=found.who.name), "done")
    return SessionView(
        token=found.token, name=found.who.name, role=found.who.role, expires_at=moment(found.until)
    )


@router.get("", operation_id="whoAmI")
async def who_am_i(asking: Asking, access: Access) -> WhoView:
    """Who asks, and in which role."""
    return WhoView(name=asking.name, role=asking.role, kind=asking.kind, users=access is not None)


@router.delete("", operation_id="signOut", status_code=204)
async def sign_out(request: Request, plane: Plane, who: Who, access: Access) -> None:
    """End this session. Tokens of the access file do not end: take them out of it."""
    if access is not None and access.sign_out(presented(request.headers)):
        _tell(plane, "sign_out", who, "done")


def _refusal(found: Unsigned) -> Response:
    if found.wait_s:
        seconds = math.ceil(found.wait_s)
        return problem(
            429, "too_many_tries", "Too many wrong passwords came from here or for this name.",
            f"Try again in {seconds} s.", headers={"Retry-After": str(seconds)},
        )  # fmt: skip
    return problem(
        401, "wrong_password", "The name or the password is wrong.",
        "`pdctl users passwd NAME` on its machine sets another one.",
        headers={"WWW-Authenticate": "Bearer"},
    )  # fmt: skip


def _tell(plane: ControlPlane, verb: str, who: Caller, outcome: str, message: str = "") -> None:
    data = {
        "verb": verb, "actor": who.actor, "source": who.source, "outcome": outcome,
        "message": message,
    }  # fmt: skip
    plane.feed.publish(EventKind.OPERATION, "access", data)
