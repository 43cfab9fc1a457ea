"""Fleets to test with, and a control plane over a `World` that runs them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Self

from pdctl import tasks
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.operations import Operations
from pdctl.control.plans import PlanBook
from pdctl.control.reconciler import Reconciler
from pdctl.domain.events import Event, EventKind
from pdctl.domain.handoff import Load, Suspect
from pdctl.domain.ids import PoolName
from pdctl.domain.instance import Instance, Pair, Slot
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import (
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    Mode,
    PoolSpec,
    PortBand,
    Role,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.machine import FakeDataPlane, FakeLauncher, FakeProbe, World
from tests.fakes.memory_store import MemoryStore


def fleet(
    prefill: int = 1,
    decode: int = 1,
    *,
    both: int = 0,
    mode: Mode = Mode.PD,
    cores: tuple[str, ...] = (),
    start_timeout_s: float = 900.0,
    drain_timeout_s: float = 300.0,
) -> FleetSpec:
    """A fleet of up to three pools; a size of 0 keeps the pool, except for "both"."""
    sizes = [("prefill", Role.PREFILL, prefill), ("decode", Role.DECODE, decode)]
    if both:
        sizes.append(("both", Role.BOTH, both))
    pools = tuple(
        PoolSpec(
            PoolName(name),
            role,
            size,
            cores=cores,
            shutdown_timeout_s=60,
            drain_timeout_s=drain_timeout_s,
        )
        for name, role, size in sizes
    )
    return FleetSpec(
        name="test",
        model="tiny",
        served_name="tiny",
        mode=mode,
        engine=EngineSpec(kind="simulated", start_timeout_s=start_timeout_s),
        connector=ConnectorSpec(lease_s=10),
        pools=pools,
        http_ports=PortBand(18000, 18039),
        side_channel_ports=PortBand(18100, 18179),
        revision=1,
    )


def elastic(spec: FleetSpec) -> FleetSpec:
    """`spec` with pools that may exchange running instances."""
    return replace(spec, pools=tuple(replace(pool, elastic=True) for pool in spec.pools))


def resized(spec: FleetSpec, **sizes: int) -> FleetSpec:
    """`spec` with other pool sizes."""
    pools = tuple(replace(pool, size=sizes.get(pool.name, pool.size)) for pool in spec.pools)
    return replace(spec, pools=pools, revision=spec.revision + 1)


def reflagged(spec: FleetSpec, **flags: int) -> FleetSpec:
    """`spec` with other launch flags: every instance is outdated."""
    args = (*spec.engine.args, *((name.replace("_", "-"), value) for name, value in flags.items()))
    return replace(spec, engine=replace(spec.engine, args=args), revision=spec.revision + 1)


def in_place(spec: FleetSpec) -> FleetSpec:
    """`spec` with pools that never run more than their size."""
    return replace(spec, pools=tuple(replace(pool, surge=0) for pool in spec.pools))


def moved_to(spec: FleetSpec, python: str) -> FleetSpec:
    """`spec` with another engine environment: old and new may not hand over to each other."""
    engine = replace(spec.engine, python=python)
    return replace(spec, engine=engine, revision=spec.revision + 1)


def command(
    fleet: FleetSpec, pool: PoolSpec, instance_id: str, slot: Slot, nonce: str
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """A command that nobody runs."""
    return ("engine", "--port", str(slot.http_port)), (("NONCE", nonce),)


@dataclass
class Plane:
    """One control plane over a world. `async with` runs it; leaving it is a kill -9."""

    world: World
    spec: FleetSpec = field(default_factory=fleet)
    store: MemoryStore = field(default_factory=MemoryStore)
    data_plane: FakeDataPlane = field(default_factory=FakeDataPlane)

    def __post_init__(self) -> None:
        self.clock: VirtualClock = self.world.clock
        self.state = FleetState(self.spec)
        self.feed = Feed(self.clock)
        self.launcher = FakeLauncher(self.world)
        self.probe = FakeProbe(self.world)
        self.reconciler = Reconciler(
            state=self.state, feed=self.feed, launcher=self.launcher, probe=self.probe,
            data_plane=self.data_plane, clock=self.clock, store=self.store, command=command,
            scrape_interval_s=2.0,
        )  # fmt: skip
        self.operations = Operations(
            self.state, self.feed, self.clock, self.store, self.reconciler.wake
        )
        self.plans = PlanBook(self.state, self.feed, self.clock, self.operations)
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.tasks = [
            tasks.spawn(self.reconciler.run(), name="reconciler"),
            tasks.spawn(self._pump(), name="pump"),
        ]
        return self

    async def __aexit__(self, *error: object) -> None:
        await tasks.settle(*self.tasks)
        failed = [e for e in self.events(EventKind.NOTICE) if "pdctl failed" in e.data["message"]]
        assert not failed

    async def _pump(self) -> None:
        async for event in self.data_plane.events():
            if isinstance(event, Load):
                self.reconciler.on_load(event)
            elif isinstance(event, Suspect):
                self.reconciler.on_suspect(event)

    def want(self, spec: FleetSpec) -> None:
        """The operator wants another fleet."""
        self.state.set_desired(spec)
        self.reconciler.wake()

    def one(self, id_: str) -> Instance:
        """An instance that must be there."""
        found = self.state.fleet.instance(id_)
        assert found is not None, f"{id_} is not there"
        return found

    def pair(self, prefill: str, decode: str) -> Pair:
        """A pair that must be there."""
        found = self.state.fleet.pair(prefill, decode)
        assert found is not None
        return found

    @property
    def phases(self) -> dict[str, Phase]:
        """Phase by instance."""
        return {one.id: one.phase for one in self.state.fleet.instances}

    def all_ready(self, n: int | None = None) -> bool:
        """Every wanted instance is READY and nothing else is there."""
        want = n if n is not None else sum(p.size for p in self.state.fleet.desired.pools)
        phases = list(self.phases.values())
        return len(phases) == want and set(phases) <= {Phase.READY}

    async def ready(self) -> float:
        """Let time pass until the fleet is whole and every pair has been tried."""
        return await self.clock.until(
            lambda: (
                self.all_ready()
                and all(pair.state in ("ok", "failing") for pair in self.state.fleet.pairs)
            )
        )

    def events(self, kind: EventKind, subject: str | None = None) -> list[Event]:
        """Facts of a kind, oldest first."""
        return [
            event
            for event in self.feed.recent(10_000)
            if event.kind is kind and subject in (None, event.subject)
        ]

    def story(self, id_: str) -> list[str]:
        """The phases that an instance went through, repeats folded."""
        phases = [str(e.data["phase"]) for e in self.events(EventKind.INSTANCE_CHANGED, id_)]
        return [now for before, now in zip([None, *phases], phases, strict=False) if now != before]

    def rungs(self, id_: str) -> list[str]:
        """The rungs of the stop ladder that were taken."""
        return [str(event.data["rung"]) for event in self.events(EventKind.STOP_RUNG, id_)]
