"""Which concrete class plays which part."""

from __future__ import annotations

import os
from functools import partial

from pdctl import plugins
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.machine.meter import ProcessMeter
from pdctl.adapters.otlp import OtlpSink
from pdctl.adapters.store.bundle import bundled
from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.standin import StandIn
from pdctl.adapters.supervision.logs import follow, read_tail
from pdctl.adapters.supervision.orphans import MachineEngines
from pdctl.adapters.vllm.command import build_command, redact
from pdctl.adapters.vllm.golden import GoldenProbe
from pdctl.adapters.vllm.probe import HttpProbe
from pdctl.app.faces import face_of, listen_for
from pdctl.app.front import Front, front_of, notices
from pdctl.app.life import Run, System
from pdctl.app.watch import desk_of
from pdctl.control.archive import Archive
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.golden import GoldenChecks
from pdctl.control.intake import Intake
from pdctl.control.journal import Journal, Tell
from pdctl.control.latency import LatencyBook
from pdctl.control.lookout import Lookout
from pdctl.control.marks import Marks
from pdctl.control.minutes import Minutes
from pdctl.control.operations import Operations
from pdctl.control.orphans import Orphans
from pdctl.control.plane import Command, ControlPlane
from pdctl.control.reconciler import Reconciler
from pdctl.control.request_log import RequestLog
from pdctl.control.retention import Retention
from pdctl.control.run_book import take_up
from pdctl.control.signals.desk import SignalDesk
from pdctl.control.tracing import Tracing
from pdctl.control.usage import UsageBook
from pdctl.domain.events import EventQuery
from pdctl.domain.fleet import Fleet
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.topology import FleetSpec
from pdctl.ports import Launcher
from pdctl.settings import Settings

HISTORY = 5000
"""Newest stored facts from which durations are learnt at the start."""


async def build(
    settings: Settings, desired: FleetSpec, store: SqlStore, clock: SystemClock,
    tell: Tell | None = None,
) -> System:  # fmt: skip
    """Every part of one control plane, joined; the router listens, nothing else runs yet."""
    state, feed = FleetState(desired), Feed(clock, await store.last_seq())
    Journal(feed, state, tell)
    launcher = _launcher(settings, desired, clock)
    probe = HttpProbe(clock, desired.connector.name)
    front = await front_of(desired.router, settings.state_dir, clock, store=store, feed=feed)
    router = front.router
    lookout = _lookout(settings, state, clock)
    reconciler = Reconciler(
        state=state, feed=feed, launcher=launcher, probe=probe, data_plane=router, clock=clock,
        store=store, command=build_command, scrape_interval_s=settings.scrape_interval_s,
        lookout=lookout, traced=bool(settings.otlp_endpoint),
    )  # fmt: skip
    sock = listen_for(settings)
    await router.start()
    plane = ControlPlane(
        state=state, feed=feed, requests=RequestLog(), latency=LatencyBook(clock), store=store,
        clock=clock, operations=Operations(state, feed, clock, store, reconciler.wake),
        data_plane_url=router.url, command_view=lambda id_: command_of(state.fleet, launcher, id_),
        log_path=launcher.log_path, read_tail=read_tail, follow=follow, load=lambda: router.load,
        open_paths=lambda: router.load.paths, router_workers=front.workers, router_log=front.log,
        scrape_interval_s=settings.scrape_interval_s, started_at=clock.now(),
    )  # fmt: skip
    plane.orphans = Orphans(
        lookout, plane.operations, reconciler=reconciler, probe=probe, launcher=launcher
    )
    _measure(plane, settings, store)
    plane.signals = desk = desk_of(plane, store, lookout, settings.state_dir)
    plane.plans.recall(await store.events(EventQuery(limit=HISTORY)))
    plane.intake = intake = _intake(plane, reconciler, front, desk)
    face, archive = face_of(plane, sock, settings), _archive(settings, plane, store)
    await take_up(plane.state, plane.plans.runs, store)  # the archive writes down what it tells
    return System(
        face, router, reconciler, intake, archive, launcher, probe, plane.handover,
        beside=_watchers(plane, desk, store, settings, probe),
    )  # fmt: skip


def _watchers(
    plane: ControlPlane, desk: SignalDesk, store: SqlStore, settings: Settings, probe: HttpProbe
) -> dict[str, Run]:
    """What looks at the fleet on its own, by name."""
    plane.marks, days = Marks(store, plane.feed, plane.clock), settings.keep_latency_days
    plane.minutes = minutes = Minutes(plane.latency, store, plane.clock, keep_days=days)
    golden = GoldenChecks(plane.state, plane.feed, plane.clock, GoldenProbe(probe))
    plane.golden = golden
    found: dict[str, Run] = {
        "signals": desk.run, "webhook": desk.courier.run, "truth": plane.truth.run,
        "latency by minute": minutes.run, "golden checks": golden.run,
    }  # fmt: skip
    if plane.retention is not None:
        found["retention"] = plane.retention.run
    if plane.usage is not None:
        found["usage"] = plane.usage.run
    if plane.tracing is not None:
        found["spans"] = plane.tracing.run
    return found


def _measure(plane: ControlPlane, settings: Settings, store: SqlStore) -> None:
    """What looks at the machine, what is kept of requests, and what tells a collector of them."""
    clock = plane.clock
    plane.usage = UsageBook(plane.state, ProcessMeter(clock), clock)
    plane.keeping = settings.keeping
    plane.retention = Retention(plane.keeping, store, clock)
    if settings.otlp_endpoint:
        desired = plane.state.fleet.desired
        made_up = desired.engine.kind == "simulated"
        sink = OtlpSink(settings.otlp_endpoint, desired.name, made_up)
        plane.tracing = Tracing(sink, notices(plane.feed))


def _intake(plane: ControlPlane, reconciler: Reconciler, front: Front, desk: SignalDesk) -> Intake:
    def heard(record: RequestRecord) -> None:
        reconciler.on_record(record)
        desk.heard(record)
        plane.truth.add(record)
        if plane.tracing is not None:
            plane.tracing.add(record)

    return Intake(
        data_plane=front.router, requests=plane.requests, latency=plane.latency, feed=plane.feed,
        store=plane.store, on_load=reconciler.on_load, on_suspect=reconciler.on_suspect,
        on_record=heard, on_stored=front.put_away, judge=plane.goodput.judge,
        wanted=plane.keeping.wanted,
    )  # fmt: skip


def _launcher(settings: Settings, desired: FleetSpec, clock: SystemClock) -> Launcher:
    made = plugins.load(plugins.LAUNCHERS, desired.engine.launcher)
    launcher: Launcher = made(settings.state_dir / "run", clock)
    return launcher


def _lookout(settings: Settings, state: FleetState, clock: SystemClock) -> Lookout:
    return Lookout(MachineEngines(), state, clock, os.path.realpath(settings.state_dir / "run"))


def _archive(settings: Settings, plane: ControlPlane, store: SqlStore) -> Archive:
    plane.bundled = partial(bundled, store)
    if isinstance(store, StandIn):
        store.keep_trying(notices(plane.feed))
    return Archive(
        plane.feed, plane.store, plane.clock,
        keep_events=settings.keep_events, runs=plane.plans.runs,
    )  # fmt: skip


def command_of(fleet: Fleet, launcher: Launcher, id_: str) -> Command | None:
    """What an instance was started with; what it would be started with when it does not run."""
    one = fleet.instance(id_)
    pool = fleet.desired.pool(one.pool) if one else None
    if one is None:
        return None
    if order := launcher.order(one.nonce):
        return redact(order.argv, order.env)
    if pool is None:
        return None
    return redact(*build_command(fleet.desired, pool, one.id, one.slot, one.nonce))
