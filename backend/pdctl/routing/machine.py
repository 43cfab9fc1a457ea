"""advance(handoff, event) -> (handoff, commands): one request from arrival to its last byte.

The table at the bottom is the whole behaviour. Laws: decode is reserved before prefill is sent; KV
params pass through once and are never kept, so a retry must prefill again; a retry happens only
before the first byte; an engine's 4xx is the client's answer; each reservation is released once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from pdctl.domain.handoff import Outcome, Path
from pdctl.routing.router import Avoid, Route
from pdctl.routing.signals import (
    BreakOff,
    ClientGone,
    Command,
    Commands,
    ErrorRelayed,
    Event,
    Failed,
    Failure,
    FindRoute,
    Finish,
    Finished,
    FirstToken,
    Forward,
    Hold,
    ParamsMissing,
    PrefillReplied,
    Refuse,
    Refused,
    Rejected,
    Relay,
    Release,
    Routed,
    SendDecode,
    SendPrefill,
    SendWhole,
    Started,
)

AGE_GUARD = 0.6
"""Share of the lease after which params are not used any more: prefill may have freed the blocks,
and decode would read other requests' KV and answer 200 with wrong text."""


class Stage(StrEnum):
    """Where a request stands."""

    ROUTING = "routing"
    PREFILL = "prefill"
    DECODE = "decode"
    WHOLE = "whole"
    ANSWERING = "answering"
    DONE = "done"


class Handoff(NamedTuple):
    """One request under way, replaced at every step. It holds no KV params: they pass through."""

    stage: Stage = Stage.ROUTING
    retries_left: int | None = None
    """None until the first route says how many its table allows."""
    retries: int = 0
    route: Route | None = None
    open: tuple[str, ...] = ()
    """Instances reserved for it and not yet released."""
    avoid: Avoid = Avoid()
    failure: Failed | None = None
    """The last failure: the client's answer when there is no other way."""
    may_resend: bool = True
    """False for requests that may have effects: sent again only if they never arrived."""

    @property
    def path(self) -> Path:
        """The way it takes, NONE before there is a route."""
        return Path.NONE if self.route is None else self.route.path


Step = tuple[Handoff, Commands]


class HandoffError(Exception):
    """An event that cannot happen at this stage."""


def start(*, may_resend: bool = True) -> Step:
    """A request arrived and is well formed."""
    return Handoff(may_resend=may_resend), (FindRoute(Avoid()),)


def advance(handoff: Handoff, event: Event) -> Step:
    """What follows; HandoffError for an event that the table does not know."""
    if type(event) is ClientGone:
        return _client_gone(handoff, event)
    try:
        step = TABLE[handoff.stage, type(event)]
    except KeyError:
        raise HandoffError(f"{type(event).__name__} at stage {handoff.stage}") from None
    return step(handoff, event)


def _routed(handoff: Handoff, event: Routed) -> Step:
    route = event.route
    left = route.table.limits.retries if handoff.retries_left is None else handoff.retries_left
    stage = Stage.WHOLE if route.prefill is None else Stage.PREFILL
    handoff = handoff._replace(stage=stage, route=route, open=route.instances, retries_left=left)
    return handoff, (_first_leg(route),)


def _first_leg(route: Route) -> Command:
    if route.prefill is None:
        return SendWhole(route.decode, route.decode_why)
    return SendPrefill(route.prefill, route.prefill_why)


def _refused(handoff: Handoff, event: Refused) -> Step:
    """After a failure the failure is the truer answer than "nothing else is there"."""
    if handoff.failure is not None and not event.refusal.wait:
        return _answer_failure(handoff, handoff.failure)
    refusal = event.refusal
    outcome = Outcome.OVERLOADED if refusal.status == 429 else Outcome.NO_INSTANCE
    return _done(
        handoff,
        Refuse(refusal.status, refusal.message, refusal.retry_after_s),
        Finish(outcome, refusal.status, refusal.message),
    )


def _prefill_replied(handoff: Handoff, event: PrefillReplied) -> Step:
    route = _route(handoff)
    left = AGE_GUARD * route.table.lease_s - event.age_s
    if left <= 0:
        return _failed(handoff, Failed(Failure.STALE, "KV params too old before decode was sent"))
    assert route.prefill is not None  # noqa: S101 - only PD routes have a prefill stage
    return handoff._replace(stage=Stage.DECODE), (
        Hold(route.prefill.id),
        SendDecode(route.decode, route.decode_why, event.params, left),
    )


def _params_missing(handoff: Handoff, event: ParamsMissing) -> Step:
    """Decode has its reservation and computes the prompt itself; the record says so."""
    route = _route(handoff)
    assert route.prefill is not None  # noqa: S101 - only PD routes have a prefill stage
    route = replace(route, path=Path.AGGREGATED, path_reason="params_missing")
    handoff = handoff._replace(stage=Stage.WHOLE, route=route, open=(route.decode.id,))
    return handoff, (
        Release(_prefill_id(route)),
        SendWhole(route.decode, f"{route.decode_why}; {event.why}"),
    )


def _rejected(handoff: Handoff, event: Rejected) -> Step:
    return _done(
        handoff, Forward(event.status), Finish(Outcome.REJECTED, event.status, "rejected by engine")
    )


def _started(handoff: Handoff, event: Started) -> Step:
    handoff = handoff._replace(stage=Stage.ANSWERING)
    return _pulled(handoff, event) if event.has_token else (handoff, (Relay(),))


def _pulled(handoff: Handoff, event: Started | FirstToken) -> Step:
    """Decode has its first token, so the KV was pulled: nothing is left on prefill."""
    decode = _route(handoff).decode.id
    releases = tuple(Release(one) for one in handoff.open if one != decode)
    return handoff._replace(open=(decode,)), (*releases, Relay())


def _failed(handoff: Handoff, event: Failed) -> Step:
    """Before the first byte: another way within the budget, from the beginning."""
    may = handoff.may_resend or event.how is Failure.CONNECT
    if event.how is Failure.STOPPED or not may or not handoff.retries_left:
        return _answer_failure(handoff, event)
    releases = tuple(Release(one) for one in handoff.open)
    avoid = _avoid_after(handoff, event)
    handoff = handoff._replace(
        stage=Stage.ROUTING, retries_left=handoff.retries_left - 1, open=(),
        retries=handoff.retries + 1, avoid=avoid, failure=event,
    )  # fmt: skip
    return handoff, (*releases, FindRoute(avoid))


def _avoid_after(handoff: Handoff, event: Failed) -> Avoid:
    """Blame as narrowly as the evidence allows: nobody, the pair, or the instance."""
    route, avoid = _route(handoff), handoff.avoid
    if event.how is Failure.STALE:
        return avoid
    at_decode = handoff.stage is Stage.DECODE
    if at_decode and event.how is Failure.STATUS and event.status != 503:
        return replace(avoid, pairs=avoid.pairs | {(_prefill_id(route), route.decode.id)})
    blamed = _prefill_id(route) if handoff.stage is Stage.PREFILL else route.decode.id
    return replace(avoid, instances=avoid.instances | {blamed})


def _broke_off(handoff: Handoff, event: Failed) -> Step:
    status, message, _ = _words(event)
    error = f"{event.how}: {event.why}" if event.why else str(event.how)
    return _done(handoff, BreakOff(status, message), Finish(Outcome.TRUNCATED, 200, error))


def _finished(handoff: Handoff, event: Finished) -> Step:
    return _done(handoff, Finish(Outcome.OK, event.status))


def _error_relayed(handoff: Handoff, event: ErrorRelayed) -> Step:
    return _done(handoff, Finish(Outcome.TRUNCATED, 200, event.why))


def _client_gone(handoff: Handoff, event: ClientGone) -> Step:
    if handoff.stage is Stage.DONE:
        return handoff, ()
    return _done(handoff, Finish(Outcome.CLIENT_GONE, 499, f"{event.why} while {handoff.stage}"))


def _answer_failure(handoff: Handoff, failure: Failed) -> Step:
    status, message, retry_after = _words(failure)
    outcome = Outcome.TIMEOUT if failure.how is Failure.TIMEOUT else Outcome.UPSTREAM_ERROR
    error = f"{failure.how}: {failure.why}" if failure.why else str(failure.how)
    return _done(handoff, Refuse(status, message, retry_after), Finish(outcome, status, error))


def _done(handoff: Handoff, *last: Command) -> Step:
    """The end of every way: what is open is released, once, and the record is written."""
    releases = tuple(Release(one) for one in handoff.open)
    return handoff._replace(stage=Stage.DONE, open=()), (*releases, *last)


WORDS: dict[Failure, tuple[int, str, int | None]] = {
    Failure.CONNECT: (502, "The engine could not be reached.", 1),
    Failure.TIMEOUT: (504, "The engine did not answer in time.", None),
    Failure.DIED: (502, "The engine closed the connection before the answer was complete.", 1),
    Failure.STATUS: (500, "The engine failed while serving this request.", None),
    Failure.ABORTED: (503, "The engine aborted this request.", 1),
    Failure.STALE: (503, "The prompt's KV expired before it could be handed over.", 1),
    Failure.STOPPED: (503, "The router is stopping.", 1),
}
"""Failure -> (status, words for the client, Retry-After). Never an address."""


def _words(failure: Failed) -> tuple[int, str, int | None]:
    status, message, retry_after = WORDS[failure.how]
    if failure.how is Failure.STATUS and failure.status == 503:
        return 503, "The engine has too much work waiting.", 1
    if failure.how is Failure.STATUS and failure.status is not None:
        status = failure.status
    return status, message, retry_after


def _route(handoff: Handoff) -> Route:
    assert handoff.route is not None  # noqa: S101 - the table allows no leg without a route
    return handoff.route


def _prefill_id(route: Route) -> str:
    return "" if route.prefill is None else route.prefill.id


S = Stage
TABLE: dict[tuple[Stage, type], Callable[[Handoff, Any], Step]] = {
    (S.ROUTING, Routed): _routed,
    (S.ROUTING, Refused): _refused,
    (S.PREFILL, PrefillReplied): _prefill_replied,
    (S.PREFILL, ParamsMissing): _params_missing,
    **{(stage, Rejected): _rejected for stage in (S.PREFILL, S.DECODE, S.WHOLE)},
    **{(stage, Failed): _failed for stage in (S.PREFILL, S.DECODE, S.WHOLE)},
    **{(stage, Started): _started for stage in (S.DECODE, S.WHOLE)},
    (S.ROUTING, Failed): _answer_failure,
    (S.ANSWERING, FirstToken): _pulled,
    (S.ANSWERING, Finished): _finished,
    (S.ANSWERING, ErrorRelayed): _error_relayed,
    (S.ANSWERING, Failed): _broke_off,
}
"""(stage, event) -> step. A client may leave at any stage; nothing else is possible."""
