"""What every route may ask for: the plane, the open streams, who is asking and from where."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Protocol, cast

from fastapi import Depends, Request

from pdctl.control.plane import ControlPlane
from pdctl.domain.access import Principal, Role, Signed, Unsigned
from pdctl.domain.errors import ForbiddenError

SOURCES = frozenset({"tui", "web", "cli", "rest"})
NOBODY = "loopback"
"""The actor where neither tokens nor users are set up."""
SHARED = frozenset({NOBODY, "token"})
"""Actors that may be anybody."""
INSIDE = "in-process"
"""The client address of calls that the web console makes within this process."""
CLAIM = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,64}", re.ASCII)
"""user@host"""


@dataclass(slots=True)
class Streams:
    """Open streams (events, followed logs). uvicorn waits for them, so shutdown closes them."""

    closing: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        """End every stream now; later ones end at once."""
        self.closing.set()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, for the operations log."""

    actor: str
    source: str


class AccessBook(Protocol):
    """Users, tokens and sessions, wherever they are kept."""

    def known(self, shown: str) -> Principal | None:
        """Whose session or token `shown` is; None when nobody's."""

    async def sign_in(self, name: str, password: str, address: str) -> Signed | Unsigned:
        """Begin a session, or say why there is none."""

    def sign_out(self, shown: str) -> bool:
        """End a session; False when there was none."""


def plane_of(request: Request) -> ControlPlane:
    """The control plane behind this app."""
    return cast("ControlPlane", request.app.state.plane)


def streams_of(request: Request) -> Streams:
    """The open streams of this app."""
    return cast("Streams", request.app.state.streams)


def caller_of(request: Request) -> Caller:
    """Actor from the guard, source from the face's own header (a label, not a permission).

    Where nobody has to show who they are, a face may say it; it is told as a claim. Where many
    share the server's own token, or none is needed, a peer on another machine is told by address.
    """
    said = request.headers.get("x-pdctl-source", "rest")
    actor = cast("str", request.scope.get("pdctl.actor", NOBODY))
    claim = request.headers.get("x-pdctl-actor", "")
    if actor == NOBODY and CLAIM.fullmatch(claim):
        actor = f"{claim}, claimed"
    elif actor in SHARED and not is_loopback(peer := peer_of(request)):
        actor = f"{actor} at {peer}"
    return Caller(actor, said if said in SOURCES else "rest")


def peer_of(request: Request) -> str:
    """Where it comes from: of the browser, when the web console asks for it; "" when unknown."""
    host = request.client.host if request.client else ""
    return request.headers.get("x-pdctl-peer", "") if host == INSIDE else host


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine; so is one that is none (a test, a Unix socket)."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return True


def principal_of(request: Request) -> Principal:
    """Who asks, as the guard found out."""
    nobody = Principal("loopback", Role.ADMIN, "loopback")
    return cast("Principal", request.scope.get("pdctl.principal", nobody))


def access_of(request: Request) -> AccessBook | None:
    """The users that this app knows; None when it knows none."""
    return cast("AccessBook | None", request.app.state.access)


def only(role: Role, asking: Principal, what: str) -> None:
    """ForbiddenError unless who asks has this role; for what the path alone does not tell."""
    if not asking.role.covers(role):
        raise ForbiddenError(asking.name, asking.role, role, what)


Plane = Annotated[ControlPlane, Depends(plane_of)]
OpenStreams = Annotated[Streams, Depends(streams_of)]
Who = Annotated[Caller, Depends(caller_of)]
Asking = Annotated[Principal, Depends(principal_of)]
Access = Annotated[AccessBook | None, Depends(access_of)]
