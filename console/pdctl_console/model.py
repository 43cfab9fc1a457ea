"""The view's state as one frozen value, and the pure step from it and a fact to the next.

What an event says is taken over; what it cannot say (load, rates, histograms) is listed anew, and
the state says which lists have become old.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from pdctl.contract.goodput import GoodputView
from pdctl.contract.history import AuditEntryView, AuditPage, RevisionView
from pdctl.contract.plans import OperationPage, OperationView
from pdctl.contract.resources import EventView, FleetView, HistogramView, PairView, RequestView
from pdctl.contract.session import WhoView
from pdctl.contract.signals import SignalPage
from pdctl.contract.truth import TruthView
from pdctl.domain.events import EventKind

EVENTS_KEPT = 500
REQUESTS_KEPT = 100
AUDIT_KEPT = 500
OPERATIONS_KEPT = 100
REVISIONS_KEPT = 200
PAIRS_APPLIED = 200
"""Up to so many pairs are kept by their events; more are listed, less often."""
RUNNING = "running"
"""The state of an operation that has not ended."""
_FLEET_KINDS = {EventKind.FLEET_CHANGED, EventKind.INSTANCE_CHANGED, EventKind.SIGNAL_CHANGED}


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that the screens draw."""

    fleet: FleetView | None = None
    pairs: tuple[PairView, ...] = ()
    requests: tuple[RequestView, ...] = ()
    latency: tuple[HistogramView, ...] = ()
    goodput: tuple[GoodputView, ...] = ()
    """One for each objective, in the window of `latency`."""
    truth: TruthView | None = None
    """What became of handed-over KV in that window."""
    events: tuple[EventView, ...] = ()
    operations: tuple[OperationView, ...] = ()
    """Newest first, as revisions and audit are."""
    operations_note: str = ""
    revisions: tuple[RevisionView, ...] = ()
    revisions_note: str = ""
    audit: tuple[AuditEntryView, ...] = ()
    audit_note: str = ""
    """What is missing of the log, when something is."""
    signals: SignalPage | None = None
    who: WhoView | None = None
    """Who this console is for the server."""
    streaming: bool = False
    """The event stream is open."""
    trouble: str = "Connecting."
    """What is wrong and what to do about it; empty while all is well."""
    refused: bool = False
    """Asking again would not help: it waits for the operator."""
    last_seen: datetime | None = None
    """When the last answer came, on our clock: what is shown is as old as this."""
    ahead: timedelta = timedelta()
    """How far the server's clock is ahead of ours; ages are counted on the server's."""
    restarts: int = 0
    """How often the server was started anew while we looked."""
    fleet_old: bool = True
    pairs_old: bool = True
    requests_old: bool = True
    latency_old: bool = True
    operations_old: bool = True
    revisions_old: bool = True
    audit_old: bool = True
    signals_old: bool = True

    @property
    def old(self) -> bool:
        """Some list is to be asked for again, if anybody looks at it."""
        return (
            self.fleet_old or self.pairs_old or self.requests_old or self.latency_old
            or self.operations_old or self.revisions_old or self.audit_old
            or self.signals_old
        )  # fmt: skip

    @property
    def connected(self) -> bool:
        """What is shown is live."""
        return self.streaming and self.fleet is not None and not self.trouble

    def as_of(self, now: datetime) -> datetime:
        """The moment that what is shown is true for, on the server's clock."""
        if self.connected or self.last_seen is None:
            return now + self.ahead
        return self.last_seen + self.ahead


def on_event(state: ViewState, event: EventView) -> ViewState:
    """The state after one fact of the feed; the same object when it changes nothing."""
    if event.kind == EventKind.REQUEST_FINISHED:
        return _on_request(state, event)
    if state.events and event.seq <= state.events[-1].seq:
        return state
    if event.kind == EventKind.PAIR_CHANGED:
        state = _on_pair(state, event)
    asked = event.kind in (EventKind.OPERATION, EventKind.FLEET_CHANGED)
    return replace(
        state,
        events=(*state.events, event)[-EVENTS_KEPT:],
        fleet_old=state.fleet_old or event.kind in _FLEET_KINDS,
        signals_old=state.signals_old or event.kind == EventKind.SIGNAL_CHANGED,
        operations_old=state.operations_old or asked or _under_way(state),
        revisions_old=state.revisions_old or event.kind == EventKind.FLEET_CHANGED,
        audit_old=state.audit_old or event.kind == EventKind.OPERATION,
    )


def _under_way(state: ViewState) -> bool:
    """Any fact may be the next step of an operation that runs."""
    return any(one.state == RUNNING for one in state.operations)


def _on_request(state: ViewState, event: EventView) -> ViewState:
    row = request_row(event)
    if row is None or state.requests_old:
        if state.requests_old and state.latency_old:
            return state
        return replace(state, requests_old=True, latency_old=True)
    if any(one.id == row.id for one in state.requests):
        return state
    requests = (row, *state.requests)[:REQUESTS_KEPT]
    return replace(state, requests=requests, latency_old=True)


def request_row(event: EventView) -> RequestView | None:
    """The row that an event tells of; None when it tells of many, or not enough."""
    data: dict[str, Any] = dict(event.data)
    took = data.get("e2e_ms")
    began = event.at - timedelta(milliseconds=took if isinstance(took, int | float) else 0)
    try:
        return RequestView.model_validate(
            {"received_at": began, "stream": False, "mode": "", **data}
        )
    except ValidationError:
        return None


def _on_pair(state: ViewState, event: EventView) -> ViewState:
    known = {f"{pair.prefill}>{pair.decode}": pair for pair in state.pairs}
    pair = known.get(event.subject)
    if pair is None or len(known) > PAIRS_APPLIED:
        return replace(state, pairs_old=True)
    ok = event.data.get("state") == "ok"
    update = {"state": "untried", "message": "", **event.data}
    last_ok = event.at if ok else pair.last_ok
    known[event.subject] = PairView.model_validate(
        {"prefill": pair.prefill, "decode": pair.decode, "last_ok": last_ok, **update}
    )
    return replace(state, pairs=tuple(known.values()))


def on_fleet(state: ViewState, fleet: FleetView, seen: datetime) -> ViewState:
    """The state after the fleet was listed at `seen` (our clock)."""
    before = state.fleet
    anew = before is not None and before.epoch != fleet.epoch
    ends = {one.id for one in fleet.instances}
    known = {one.id for one in before.instances} if before else set()
    return replace(
        state,
        fleet=fleet,
        trouble="",
        refused=False,
        last_seen=seen,
        ahead=fleet.at - seen,
        restarts=state.restarts + anew,
        fleet_old=False,
        pairs_old=state.pairs_old or ends != known or anew,
        requests_old=state.requests_old or anew,
        latency_old=state.latency_old or anew,
        operations_old=state.operations_old or anew,
        revisions_old=state.revisions_old or anew,
        audit_old=state.audit_old or anew,
        signals_old=state.signals_old or anew,
    )


def on_pairs(state: ViewState, pairs: list[PairView]) -> ViewState:
    """The state after the pairs were listed."""
    return replace(state, pairs=tuple(pairs), pairs_old=False)


def on_requests(state: ViewState, requests: list[RequestView]) -> ViewState:
    """The state after requests were listed."""
    return replace(state, requests=tuple(requests[:REQUESTS_KEPT]), requests_old=False)


def on_latency(
    state: ViewState,
    latency: list[HistogramView],
    goodput: Iterable[GoodputView] = (),
    truth: TruthView | None = None,
) -> ViewState:
    """The state after histograms were listed, and what requests add up to in the same window."""
    return replace(
        state, latency=tuple(latency), goodput=tuple(goodput), truth=truth, latency_old=False
    )


def on_operations(state: ViewState, page: OperationPage) -> ViewState:
    """The state after operations were listed."""
    return replace(
        state, operations=tuple(page.items), operations_note=page.note, operations_old=False
    )


def on_revisions(state: ViewState, revisions: Iterable[RevisionView], note: str = "") -> ViewState:
    """The state after revisions were listed; `note` says why they are not the newest."""
    return replace(state, revisions=tuple(revisions), revisions_note=note, revisions_old=False)


def on_audit(state: ViewState, page: AuditPage) -> ViewState:
    """The state after the operations log was listed; the page has its oldest entry first."""
    return replace(state, audit=tuple(page.items[::-1]), audit_note=page.note, audit_old=False)


def on_signals(state: ViewState, page: SignalPage) -> ViewState:
    """The state after signals were listed."""
    return replace(state, signals=page, signals_old=False)


def on_events(state: ViewState, events: list[EventView]) -> ViewState:
    """The state after past facts were listed."""
    return replace(state, events=tuple(events)[-EVENTS_KEPT:])


def on_stream(state: ViewState) -> ViewState:
    """The state after the stream opened (again), or told that facts were missed."""
    return replace(
        state, streaming=True, fleet_old=True, pairs_old=True, requests_old=True, latency_old=True,
        operations_old=True, revisions_old=True, audit_old=True,
        signals_old=True,
    )  # fmt: skip


def on_trouble(
    state: ViewState,
    why: str,
    *,
    streaming: bool = False,
    refused: bool = False,
    until: datetime | None = None,
) -> ViewState:
    """The state after something failed: everything shown stays, and turns old.

    `until`: when the stream that told of every change broke; until then what is shown was true.
    """
    seen = until if until is not None and state.connected else state.last_seen
    return replace(
        state, streaming=streaming, trouble=why, refused=refused, last_seen=seen, fleet_old=True
    )
