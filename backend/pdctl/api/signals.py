"""/signals and /silences: what is wrong, which knob to turn, and who has taken it up."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from pdctl.api.context import Plane, Who
from pdctl.api.views import moment, simulated
from pdctl.contract.signals import (
    AckBody,
    AckView,
    RuleView,
    SignalHistoryPage,
    SignalPage,
    SignalView,
    SilenceBody,
    SilenceView,
    WebhookView,
)
from pdctl.control.plane import ControlPlane
from pdctl.control.signals.desk import SignalDesk
from pdctl.domain.errors import ConflictError
from pdctl.domain.signals.book import Signal
from pdctl.domain.signals.rules import RULES, Rule, written
from pdctl.domain.signals.silences import Silence

router = APIRouter(tags=["signals"])
Id = Annotated[str, Path(max_length=700, description='For example "stall:decode-0".')]


@router.get("/signals", operation_id="listSignals")
async def list_signals(plane: Plane) -> SignalPage:
    """What fires and what is pending, the worst first; and what is watched."""
    desk = _desk(plane)
    failures = desk.courier.failures
    return SignalPage(
        at=moment(plane.clock.now()), simulated=simulated(plane),
        enabled=plane.state.fleet.desired.signals.enabled, firing=desk.loud(),
        items=[signal_view(plane, desk, one) for one in desk.all()],
        silences=[silence_view(one) for one in desk.silences()],
        rules=[rule_view(rule) for rule in desk.rules.values()],
        webhook=WebhookView(
            configured=failures is not None, failures=failures or 0, error=desk.courier.error
        ),
    )  # fmt: skip


@router.get("/signals/history", operation_id="listSignalHistory")
async def signal_history(
    plane: Plane,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[str | None, Query(max_length=800, description="`next` of a page.")] = None,
) -> SignalHistoryPage:
    """Signals that fired, newest first; those that fire still among them."""
    desk = _desk(plane)
    items = [signal_view(plane, desk, one) for one in await desk.history(before, limit)]
    return SignalHistoryPage(
        at=moment(plane.clock.now()), simulated=simulated(plane), items=items,
        next=items[-1].episode if len(items) == limit else None,
    )  # fmt: skip


@router.post("/signals/{id}/ack", operation_id="acknowledgeSignal")
async def acknowledge(
    id: Id,  # noqa: A002 - the name on the wire
    plane: Plane, who: Who, body: AckBody | None = None,
) -> SignalView:  # fmt: skip
    """Say that somebody has taken it up: it is no longer counted, until it fires anew."""
    desk, note = _desk(plane), body.note if body else ""
    done = await desk.ack(id, note=note, actor=who.actor, source=who.source)
    return signal_view(plane, desk, done)


@router.post("/silences", operation_id="silence", status_code=201)
async def silence(body: SilenceBody, plane: Plane, who: Who) -> SilenceView:
    """Keep signals that match quiet for a while; they are watched and shown all the same."""
    made = await _desk(plane).silence(
        rule=body.rule, subject=body.subject, for_s=body.for_s, note=body.note,
        actor=who.actor, source=who.source,
    )  # fmt: skip
    return silence_view(made)


@router.delete("/silences/{id}", operation_id="unsilence")
async def unsilence(
    id: Annotated[str, Path(max_length=64)],  # noqa: A002 - the name on the wire
    plane: Plane, who: Who,
) -> SilenceView:  # fmt: skip
    """End a silence now."""
    return silence_view(await _desk(plane).unsilence(id, actor=who.actor, source=who.source))


def signal_view(plane: ControlPlane, desk: SignalDesk, signal: Signal) -> SignalView:
    """A signal with what it means here."""
    rule = desk.rules.get(signal.rule) or RULES.get(signal.rule) or _unknown(signal)
    quiet = desk.silenced(signal)
    ack = signal.ack
    known = {one.id for one in plane.state.fleet.instances}
    return SignalView(
        id=signal.id, episode=signal.episode if signal.fired_at is not None else "",
        rule=signal.rule, subject=signal.subject,
        about=[end for end in signal.subject.split(">") if end in known],
        severity=signal.severity, state=signal.state, title=rule.title, detail=signal.detail,
        value=signal.value, value_text=written(signal.value, rule.unit),
        worst_text=written(signal.worst, rule.unit), threshold_text=rule.limit(),
        known=signal.known, since=moment(signal.since), seen_at=moment(signal.seen_at),
        fired_at=None if signal.fired_at is None else moment(signal.fired_at),
        resolved_at=None if signal.resolved_at is None else moment(signal.resolved_at),
        ending=signal.ending, means=rule.means, matters=rule.matters,
        knob=rule.turn(signal.subject), source=rule.source,
        ack=AckView(by=ack.by, at=moment(ack.at), note=ack.note) if ack else None,
        silence=silence_view(quiet) if quiet else None,
    )  # fmt: skip


def silence_view(silence: Silence) -> SilenceView:
    """A silence on the wire."""
    return SilenceView(
        id=silence.id, rule=silence.rule, subject=silence.subject, at=moment(silence.at),
        until=moment(silence.until), by=silence.by, note=silence.note,
    )  # fmt: skip


def rule_view(rule: Rule) -> RuleView:
    """A rule as it is in force."""
    return RuleView(
        name=rule.name, title=rule.title, severity=rule.severity, threshold=rule.threshold,
        unit=rule.unit, threshold_text=rule.limit(), for_s=rule.for_s, means=rule.means,
        matters=rule.matters, knob=rule.knob, source=rule.source,
    )  # fmt: skip


def _unknown(signal: Signal) -> Rule:
    """A rule that another pdctl had."""
    said = "This pdctl has no such rule."
    return Rule(
        signal.rule, signal.rule, 0, "count", 0, signal.severity, said, "", "", "another pdctl"
    )


def _desk(plane: ControlPlane) -> SignalDesk:
    if plane.signals is None:
        raise ConflictError("not_here", "This pdctl does not watch for signals.")
    return plane.signals
