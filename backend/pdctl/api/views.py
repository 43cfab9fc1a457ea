"""Domain to wire. The only module that turns wall seconds into dates and deadlines into "left"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from pdctl import __version__
from pdctl.api.rates import Rates
from pdctl.contract.engine import GpuView, StatsView, UsageView
from pdctl.contract.resources import (
    CircuitView,
    EventView,
    ExitView,
    FleetView,
    InstanceView,
    ModeView,
    PairView,
    PoolView,
    ProgressView,
    RouterView,
    RouterWorkerView,
)
from pdctl.control.plane import ControlPlane
from pdctl.domain import pairing
from pdctl.domain.events import Event, EventKind
from pdctl.domain.fleet import Fleet, worst
from pdctl.domain.handoff import Load
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import EngineStats, ExitInfo, Instance, Pair
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import PoolSpec, fingerprint

STALE_SCRAPES = 3
PROMPT_TOKENS = ("prompt_tokens_local", "prompt_tokens_cached", "prompt_tokens_remote")


def moment(seconds: float) -> datetime:
    """Wall seconds as a date in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def simulated(plane: ControlPlane) -> bool:
    """Whether no vLLM runs: whatever is shown beside it must say so."""
    return plane.state.fleet.desired.engine.kind == "simulated"


def in_process(plane: ControlPlane) -> bool:
    """Whether the engines are no processes at all."""
    return simulated(plane) and plane.state.fleet.desired.engine.launcher == "simulated"


def fleet_view(plane: ControlPlane, rates: Rates, *, pairs: bool = True) -> FleetView:
    """The whole fleet at the feed's present position."""
    seq, fleet = plane.feed.seq, plane.state.fleet
    desired = fleet.desired
    return FleetView(
        seq=seq,
        epoch=plane.epoch,
        at=moment(plane.clock.now()),
        name=desired.name,
        model=desired.model,
        served_name=desired.served_name,
        shape=desired.shape,
        mode=desired.mode,
        revision=desired.revision,
        simulated=simulated(plane),
        connector=desired.connector.name,
        version=__version__,
        router=router_view(plane),
        signals=plane.signals.loud() if plane.signals else 0,
        pools=[pool_view(fleet, pool) for pool in desired.pools],
        instances=instance_views(plane, rates),
        pairs=pair_views(fleet) if pairs else [],
        notes=list(fleet.notes),
    )


def router_view(plane: ControlPlane) -> RouterView:
    """The front door's load: requests, not legs (a handed-over request has up to two)."""
    open_ = sum(plane.open_paths().values())
    return RouterView(
        url=plane.data_plane_url, queued=plane.load().queued, inflight=open_,
        workers=[
            RouterWorkerView(**asdict(one), since=moment(one.started_at))
            for one in plane.router_workers()
        ],
    )  # fmt: skip


def pool_view(fleet: Fleet, pool: PoolSpec) -> PoolView:
    """A pool: what is wanted beside what is there."""
    members = [one for one in fleet.instances if one.pool == pool.name]
    return PoolView(
        name=pool.name,
        role=pool.role,
        desired=pool.size,
        ready=sum(one.phase is Phase.READY for one in members),
        phase=worst(tuple(one.phase for one in members)),
        instances=[one.id for one in members],
    )


def instance_views(plane: ControlPlane, rates: Rates) -> list[InstanceView]:
    """Every instance, each measured against its pool's present launch flags."""
    desired = plane.state.fleet.desired
    wanted = {pool.name: fingerprint(desired, pool) for pool in desired.pools}
    load = plane.load()
    return [
        instance_view(plane, rates, one, load, wanted.get(one.pool))
        for one in plane.state.fleet.instances
    ]


def instance_view(
    plane: ControlPlane, rates: Rates, one: Instance, load: Load, wanted: str | None
) -> InstanceView:
    """One instance; `wanted` is the fingerprint of its pool, None when the pool is gone."""
    circuit = load.circuits.get(one.id)
    return InstanceView(
        id=one.id,
        pool=one.pool,
        role=one.role,
        phase=one.phase,
        reason=one.reason,
        message=one.message,
        since=moment(one.since),
        simulated=simulated(plane),
        in_process=in_process(plane),
        outdated=wanted is not None and bool(one.fingerprint) and one.fingerprint != wanted,
        compat=one.compat,
        generation=one.generation,
        pid=one.pid,
        shim_pid=one.shim_pid,
        http_port=one.endpoint.http_port,
        side_channel_port=one.endpoint.side_channel_port,
        device=one.slot.device,
        core=one.slot.core,
        inflight=load.inflight.get(one.id, 0),
        failures=one.failures,
        retry_in_s=_left(plane, one.retry_at),
        drain_left_s=_left(plane, one.drain_deadline),
        progress=ProgressView.model_validate(one.progress) if one.progress else None,
        stats=_stats_view(plane, rates, one, one.stats) if one.stats else None,
        usage=_usage_view(plane, one),
        exit=exit_view(one.exit),
        first_failure=exit_view(one.first_failure),
        circuit=CircuitView.model_validate(circuit) if circuit else None,
    )


def pair_views(fleet: Fleet) -> list[PairView]:
    """Every pair, each seen together with its ends."""
    away = pairing.absent(fleet.instances)
    return [pair_view(pair, away) for pair in fleet.pairs]


def pair_view(pair: Pair, away: Mapping[InstanceId, str]) -> PairView:
    """One prefill x decode pair; `away` is from `pairing.absent`."""
    state, message = pairing.shown(pair, away)
    return PairView(
        prefill=pair.prefill,
        decode=pair.decode,
        state=state,
        message=message,
        last_ok=None if pair.last_ok is None else moment(pair.last_ok),
        handoff_ms=pair.handoff_ms,
    )


def mode_view(plane: ControlPlane) -> ModeView:
    """The mode in force; since when, as far as the ring remembers."""
    mode = plane.state.fleet.desired.mode
    return ModeView(
        mode=mode,
        simulated=simulated(plane),
        since=_mode_since(plane),
        inflight=plane.open_paths(),
    )


def event_view(event: Event) -> EventView:
    """One fact."""
    return EventView(
        seq=event.seq,
        at=moment(event.at),
        kind=event.kind.value,
        subject=event.subject,
        data=event.data,
    )


def exit_view(exit_: ExitInfo | None) -> ExitView | None:
    """How a process ended."""
    if exit_ is None:
        return None
    return ExitView(
        code=exit_.code,
        signal=exit_.signal,
        at=moment(exit_.at),
        first_error=exit_.first_error,
        last_lines=list(exit_.last_lines),
        survivors=list(exit_.survivors),
    )


def _stats_view(plane: ControlPlane, rates: Rates, one: Instance, stats: EngineStats) -> StatsView:
    return StatsView(
        **{**asdict(stats), "at": moment(stats.at)},
        stale=stale(plane, stats),
        generation_tokens_per_s=rates.per_second(one, "generation_tokens"),
        prompt_tokens_per_s=rates.per_second(one, *PROMPT_TOKENS),
        nixl_bytes_per_s=rates.per_second(one, "nixl_bytes"),
        preemptions_per_s=rates.per_second(one, "preemptions"),
    )


def _usage_view(plane: ControlPlane, one: Instance) -> UsageView | None:
    book = plane.usage
    usage = book.of(one) if book else None
    if book is None or usage is None:
        return None
    gpus = [GpuView.model_validate(gpu) for gpu in usage.gpus]
    return UsageView(
        at=moment(usage.at), stale=book.stale(usage), processes=usage.processes,
        cores=book.cores(one), cpu_seconds=usage.cpu_seconds, resident=usage.resident,
        proportional=usage.proportional, gpus=gpus,
    )  # fmt: skip


def stale(plane: ControlPlane, stats: EngineStats) -> bool:
    """Whether a scrape is too old to speak of now."""
    return plane.clock.now() - stats.at > STALE_SCRAPES * plane.scrape_interval_s


def _left(plane: ControlPlane, deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - plane.clock.monotonic())


def _mode_since(plane: ControlPlane) -> datetime | None:
    mode = plane.state.fleet.desired.mode.value
    changes = [e for e in plane.feed.recent(4096) if e.kind is EventKind.FLEET_CHANGED]
    since = None
    for event in reversed(changes):
        if event.data.get("mode", mode) != mode:
            break
        since = event.at
    return None if since is None else moment(since)
