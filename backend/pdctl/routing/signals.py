"""The vocabulary between the handoff machine and the world: what happened, and what to do.

Events and commands are counterparts: each command but the last of a request brings one event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pdctl.domain.handoff import Outcome
from pdctl.domain.table import Target
from pdctl.routing.router import Avoid, Refusal, Route


class Failure(StrEnum):
    """How a leg failed; the first four are the transport's words."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    DIED = "died"
    STATUS = "status"
    ABORTED = "aborted"
    """finish_reason "abort" without a token: the engine is shutting down (vLLM answers 200)."""
    STALE = "stale"
    """The params grew too old before decode could be reached."""
    STOPPED = "stopped"
    """This router is stopping."""


class SingleUse:
    """KV params that can be taken once. Affine by construction: the second taker fails loudly."""

    __slots__ = ("_params",)

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params: Mapping[str, Any] | None = params

    def take(self) -> Mapping[str, Any]:
        """The params; RuntimeError when they were taken before."""
        if self._params is None:
            raise RuntimeError("KV params are single-use and were used already")
        params, self._params = self._params, None
        return params


# What happened.


@dataclass(frozen=True, slots=True)
class Routed:
    """A route was found and all its instances are reserved."""

    route: Route


@dataclass(frozen=True, slots=True)
class Refused:
    """No route: nothing usable, or the wait for room was too long."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class PrefillReplied:
    """Prefill is done and its params are whole."""

    params: SingleUse
    age_s: float
    """Seconds since the reply began to arrive; the lease began no later than that."""


@dataclass(frozen=True, slots=True)
class ParamsMissing:
    """Prefill is done but nothing can be pulled."""

    why: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The engine's final word on the request itself (4xx or 501), kept for the client."""

    status: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A leg failed, or the answer broke off."""

    how: Failure
    why: str = ""
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The answer is there; its first byte has not been given to the client yet."""

    has_token: bool = True
    """False while it holds only a comment, a role or the like: those come before the first step."""


@dataclass(frozen=True, slots=True)
class FirstToken:
    """An answer that started without a token has brought its first one to the client."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer was given to the client whole."""

    status: int = 200


@dataclass(frozen=True, slots=True)
class ErrorRelayed:
    """The engine itself ended its stream with an error event, and the client has it."""

    why: str


@dataclass(frozen=True, slots=True)
class ClientGone:
    """The client closed its connection, or was left because it took nothing."""

    why: str = "client left"


Event = (
    Routed | Refused | PrefillReplied | ParamsMissing | Rejected | Failed | Started | FirstToken
    | Finished | ErrorRelayed | ClientGone
)  # fmt: skip


# What to do. The last command of a step is the one that brings the next event.


@dataclass(frozen=True, slots=True)
class FindRoute:
    """Decide and reserve, waiting for room if need be."""

    avoid: Avoid


@dataclass(frozen=True, slots=True)
class SendPrefill:
    """Send the prefill leg."""

    target: Target
    why: str


@dataclass(frozen=True, slots=True)
class SendDecode:
    """Send the decode leg; it must be on its way before the params are too old."""

    target: Target
    why: str
    params: SingleUse
    within_s: float


@dataclass(frozen=True, slots=True)
class SendWhole:
    """Send the client's body as it came."""

    target: Target
    why: str


@dataclass(frozen=True, slots=True)
class Hold:
    """The leg on this instance is over, but KV on it is still to be pulled."""

    instance: str


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing of this request is on this instance any more."""

    instance: str


@dataclass(frozen=True, slots=True)
class Relay:
    """Give the client the answer as it comes, or go on with it."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Give the client the engine's rejection, unchanged."""

    status: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error of our own."""

    status: int
    message: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class BreakOff:
    """The answer had begun: end it with an error, never as if it were whole."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Write the record; always the last command of a request."""

    outcome: Outcome
    status: int
    error: str = ""


Command = (
    FindRoute | SendPrefill | SendDecode | SendWhole | Hold | Release | Relay | Forward | Refuse
    | BreakOff | Finish
)  # fmt: skip
Commands = tuple[Command, ...]
