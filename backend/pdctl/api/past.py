"""/past: the fleet at a moment that is over, and the facts, requests and latency around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from pdctl.api.context import Plane
from pdctl.api.histograms import Metric, histogram_view
from pdctl.api.records import kv_bytes_per_token, request_view
from pdctl.api.views import event_view, moment, simulated
from pdctl.contract.past import PastInstance, PastPair, PastPool, PastView
from pdctl.contract.resources import HistogramView, RequestView
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import NotFoundError, OperatorError
from pdctl.domain.events import Event, EventKind, EventQuery, matches
from pdctl.domain.histogram import Histogram
from pdctl.domain.past import InstanceThen, instances_at, pairs_at
from pdctl.domain.request_query import RequestQuery
from pdctl.ports import Revision

router = APIRouter(tags=["fleet"])
FACTS = 20_000
"""Newest facts of instances and pairs that are read."""
UNSTORED = 4096
"""Newest facts of memory that are looked through for what the store has not got yet."""
EVENTS = 200
REQUESTS = 50
STATES = frozenset({EventKind.INSTANCE_CHANGED, EventKind.PAIR_CHANGED})


@router.get("/past", operation_id="getPast")
async def get_past(
    plane: Plane,
    at: Annotated[
        str, Query(max_length=64, description='"10m" (ago), ISO 8601, or the name of a mark.')
    ],
    around_s: Annotated[
        int, Query(ge=10, le=86_400, description="Seconds before and after it that are listed.")
    ] = 300,
) -> PastView:
    """What the fleet was then, as far as stored facts and revisions tell."""
    now, then = plane.clock.now(), await _moment(plane, at)
    since, until = then - around_s, min(now, then + around_s)
    nearby = EventQuery(limit=EVENTS, since=since, until=until)
    served = RequestQuery(limit=REQUESTS, since=since, until=until)
    facts = await _told(plane, EventQuery(limit=FACTS, kinds=STATES))
    there = instances_at(facts, plane.state.fleet, then)
    revision = await _revision(plane, then)
    return PastView(
        simulated=simulated(plane), at=moment(then), now=moment(now), since=moment(since),
        until=moment(until), name=plane.state.fleet.desired.name,
        mode=revision.fleet.mode.value if revision else None,
        shape=revision.fleet.shape if revision else None,
        revision=revision.fleet.revision if revision else None,
        pools=_pools(revision, there), instances=[_instance(one) for one in there],
        pairs=[PastPair(**asdict(one)) for one in pairs_at(facts, there, then)],
        events=[event_view(one) for one in await _told(plane, nearby)],
        requests=await _requests(plane, served),
        latency=await _latency(plane, since, until), notes=_notes(facts, there, revision, then),
    )  # fmt: skip


async def _moment(plane: ControlPlane, text: str) -> float:
    if plane.minutes is None:
        raise NotFoundError("no_past", "This pdctl keeps no past.", "")
    then = await plane.minutes.moment(text)
    if then > plane.clock.now():
        raise OperatorError(
            "not_past", f"{text!r} is not over yet.", "Give a moment of the past, such as 10m."
        )
    return then


async def _revision(plane: ControlPlane, then: float) -> Revision | None:
    """The desired state that was in force."""
    before = None
    while page := await plane.store.history(before=before):
        for one in page:
            if one.at <= then:
                return one
        before = page[-1].fleet.revision
    return None


async def _told(plane: ControlPlane, query: EventQuery) -> list[Event]:
    """Stored facts, and those that are on their way to the store."""
    stored = await plane.store.events(query)
    last = stored[-1].seq if stored else 0
    fresh = [one for one in plane.feed.recent(UNSTORED) if one.seq > last and matches(one, query)]
    return [*stored, *fresh][-query.limit :]


async def _requests(plane: ControlPlane, query: RequestQuery) -> list[RequestView]:
    found = {(one.id, one.received_at): one for one in plane.requests.query(query)}
    for one in await plane.store.requests(query):
        found.setdefault((one.id, one.received_at), one)
    newest = sorted(found.values(), key=lambda one: one.received_at, reverse=True)[:REQUESTS]
    per_token, made_up = kv_bytes_per_token(plane.state.fleet), simulated(plane)
    return [request_view(one, per_token, simulated=made_up) for one in newest]


async def _latency(plane: ControlPlane, since: float, until: float) -> list[HistogramView]:
    if plane.minutes is None:
        return []
    found = await plane.minutes.view("all", since, until)
    return [
        histogram_view(found.get(metric.value, Histogram()), metric.value, "all", None)
        for metric in Metric
    ]


def _pools(revision: Revision | None, there: Sequence[InstanceThen]) -> list[PastPool]:
    ready = [one.pool for one in there if one.phase == "ready"]
    return [
        PastPool(name=pool.name, role=pool.role.value, desired=pool.size,
                 ready=ready.count(pool.name))
        for pool in (revision.fleet.pools if revision else ())
    ]  # fmt: skip


def _instance(one: InstanceThen) -> PastInstance:
    return PastInstance(
        id=one.id, pool=one.pool, phase=one.phase, reason=one.reason, message=one.message,
        since=None if one.since is None else moment(one.since),
    )  # fmt: skip


def _notes(
    facts: Sequence[Event], there: Sequence[InstanceThen], revision: Revision | None, then: float
) -> list[str]:
    notes = []
    if revision is None:
        notes.append("No desired state is known from so long ago: pdctl did not serve this fleet.")
    if not facts or facts[0].at > then:
        notes.append("Facts of that time are kept no more, or there were none.")
    unknown = sum(one.phase is None for one in there)
    if unknown:
        notes.append(f"The phase of {unknown} instances then is unknown.")
    return notes
