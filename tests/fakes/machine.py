"""A machine with engines on it, in memory: launcher, probe and data plane over one truth.

Processes load for a while, answer, crash, hang and drain as a test says, by the virtual clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from pathlib import Path

from pdctl import tasks
from pdctl.domain.errors import EngineError
from pdctl.domain.handoff import Load, RouterEvent, Suspect
from pdctl.domain.instance import Endpoint, EngineStats, ExitInfo, Progress
from pdctl.domain.table import RoutingTable
from pdctl.ports import Health, LaunchOrder, Lost, ProbeResult, Running
from tests.fakes.clock import VirtualClock


@dataclass(slots=True)
class Process:
    """One engine process tree."""

    order: LaunchOrder
    pid: int
    began: float
    load_s: float = 20.0
    exit: ExitInfo | None = None
    warmed: bool = False
    running: float = 0.0
    iterations: float = 10.0
    kv_usage: float | None = None
    deaf: bool = False
    """Its port refuses connections although it lives."""
    slow: bool = False
    """It lives, but answers too late."""
    lag_s: float = 0.0
    """Seconds that each of its answers takes."""
    wedged: bool = False
    """It says that it is well, and never steps again: no request is answered."""
    stuck: bool = False
    """It ignores SIGTERM."""
    unkillable: bool = False
    """SIGKILL does not end it (a hung driver)."""
    terms: int = 0

    @property
    def alive(self) -> bool:
        return self.exit is None


@dataclass(slots=True)
class World:
    """What really is the case, and the knobs by which a test changes it."""

    clock: VirtualClock
    load_s: float = 20.0
    """Seconds from start to an answering server."""
    exit_s: float = 1.0
    """Seconds from SIGTERM to the end."""
    handoff_s: float = 0.2
    processes: dict[str, Process] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    unrecorded: set[str] = field(default_factory=set)
    """Nonces of starts whose record is lost: only who remembers them finds their processes."""
    found_anyway: set[str] = field(default_factory=set)
    """Those of them that a launcher finds by itself."""
    launches: list[LaunchOrder] = field(default_factory=list)
    foreign_ports: set[int] = field(default_factory=set)
    """Ports that somebody else's process has bound, without answering."""
    deaf_ports: set[int] = field(default_factory=set)
    """Side-channel ports that somebody else has: vLLM says so and then hangs."""
    squatted_ports: set[int] = field(default_factory=set)
    """Ports on which somebody else's engine answers."""
    broken: dict[str, str] = field(default_factory=dict)
    """Instance id -> what it says when it dies while loading."""
    bad_pairs: set[tuple[str, str]] = field(default_factory=set)
    stall_first_s: float = 0.0
    """How long the first handoff of every pair of processes takes."""
    seen_pairs: set[tuple[str, str]] = field(default_factory=set)
    most_probes: int = 0
    """Largest number of probes that one prefill had at a time."""
    _probes: dict[int, int] = field(default_factory=dict)
    _pid: int = 1000
    _ends: list[asyncio.Queue[str]] = field(default_factory=list)

    def of(self, id_: str) -> Process:
        """The living process of an instance."""
        (one,) = [p for p in self.processes.values() if p.alive and p.order.instance_id == id_]
        return one

    @property
    def alive(self) -> list[Process]:
        """Every living process."""
        return [process for process in self.processes.values() if process.alive]

    def start(self, order: LaunchOrder) -> Process:
        """A new process; it owns its slot or the test fails."""
        for other in self.alive:
            mine, theirs = order.slot, other.order.slot
            assert other.order.instance_id != order.instance_id, f"a second {order.instance_id}"
            assert mine.http_port != theirs.http_port
            assert mine.side_channel_port != theirs.side_channel_port
            assert not mine.core or mine.core != theirs.core
            assert not mine.device or mine.device != theirs.device
        self._pid += 1
        process = Process(order, self._pid, self.clock.monotonic(), self.load_s)
        self.processes[order.nonce] = process
        self.launches.append(order)
        return process

    def end(
        self, process: Process, code: int | None = None, signal: int | None = None, *lines: str
    ) -> None:
        """The process is gone."""
        if process.alive:
            error = lines[0] if lines else ""
            process.exit = ExitInfo(code, signal, self.clock.now(), lines, error)
            for queue in self._ends:
                queue.put_nowait(process.order.nonce)

    def crash(self, id_: str, *lines: str) -> None:
        """Kill -9 of an instance."""
        self.end(self.of(id_), None, 9, *lines)

    def at(self, endpoint: Endpoint) -> Process | None:
        """Who answers there now."""
        for process in self.alive:
            if process.order.endpoint == endpoint:
                ready = self.clock.monotonic() - process.began >= process.load_s
                ready = ready and process.order.slot.side_channel_port not in self.deaf_ports
                return process if ready and not process.deaf else None
        return None


class FakeLauncher:
    """Implements `ports.Launcher` over a `World`; a new one sees what the old one left."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.refuse: str = ""
        self.hang = False

    async def launch(self, order: LaunchOrder) -> Running:
        await self.world.clock.sleep(0.05)
        if self.refuse:
            raise EngineError("start_failed", self.refuse)
        known = self.world.processes.get(order.nonce)
        process = known or self.world.start(order)
        if said := self.world.broken.get(order.instance_id):
            self._later(2.0, process, 1, said)
        elif order.slot.http_port in self.world.foreign_ports:
            self._later(1.0, process, 1, "OSError: [Errno 98] Address already in use")
        return self._running(process)

    async def attach(self, order: LaunchOrder, leader: tuple[int, int], since: float) -> Running:
        await self.world.clock.sleep(0.05)
        if self.refuse:
            raise EngineError("start_failed", self.refuse)
        process = self.world.start(order)
        process.pid, process.began = leader[0], process.began - 1000.0
        self.world.squatted_ports.discard(order.slot.http_port)
        return self._running(process)

    async def detach(self, nonce: str) -> None:
        process = self.world.processes.pop(nonce)
        self.world.squatted_ports.add(process.order.slot.http_port)

    async def terminate(self, nonce: str) -> None:
        process = self.world.processes.get(nonce)
        if process is not None and process.alive:
            process.terms += 1
            loading = self.world.clock.monotonic() - process.began < process.load_s
            if not (process.stuck or loading):  # vLLM loses a SIGTERM that comes while it loads
                self._later(self.world.exit_s, process, 0, "")

    async def kill(self, nonce: str) -> None:
        process = self.world.processes.get(nonce)
        if process is not None and not process.unkillable:
            self.world.end(process, None, 9)

    async def list(self) -> list[Running]:
        if self.hang:
            raise OSError("the runtime folder cannot be read")
        hidden = {*self.world.forgotten, *self.world.unrecorded}
        return [
            self._running(process)
            for nonce, process in self.world.processes.items()
            if nonce not in hidden
        ]

    async def lost(self, nonces: Collection[str] = ()) -> tuple[Lost, ...]:
        return tuple(
            Lost(nonce, (self.world.processes[nonce].pid,))
            for nonce in self.world.unrecorded
            if self.world.processes[nonce].alive
            and (nonce in nonces or nonce in self.world.found_anyway)
        )

    async def end_lost(self, lost: Lost) -> tuple[int, ...]:
        process = self.world.processes[lost.nonce]
        if process.unkillable:
            return lost.pids
        self.world.end(process, None, 9)
        return ()

    def order(self, nonce: str) -> LaunchOrder | None:
        process = self.world.processes.get(nonce)
        return process.order if process and nonce not in self.world.forgotten else None

    async def forget(self, nonce: str) -> None:
        if not self.world.processes[nonce].alive:
            self.world.forgotten.append(nonce)

    async def changed(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self.world._ends.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self.world._ends.remove(queue)

    async def close(self) -> None:
        return

    def log_path(self, instance_id: str, previous: bool = False) -> Path | None:
        return None

    def _running(self, process: Process) -> Running:
        share = (self.world.clock.monotonic() - process.began) / process.load_s
        progress = Progress("loading weights", round(min(share, 1.0), 1)) if share > 0.2 else None
        return Running(
            process.order, process.pid + 5000, process.pid, process.alive,
            self.world.clock.now(), exit=process.exit, progress=progress,
            doom="ZMQError: Address already in use" if self._is_doomed(process) else "",
        )  # fmt: skip

    def _is_doomed(self, process: Process) -> bool:
        return process.order.slot.side_channel_port in self.world.deaf_ports

    def _later(self, seconds: float, process: Process, code: int, line: str) -> None:
        async def end() -> None:
            await self.world.clock.sleep(seconds)
            self.world.end(process, code, None, *([line] if line else []))

        tasks.spawn(end(), name=f"end {process.pid}")


class FakeProbe:
    """Implements `ports.Probe` over a `World`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.looks = self.scrapes = self.handoffs = self.warmings = 0
        self.cold = ""

    async def look(self, endpoint: Endpoint) -> Health:
        self.looks += 1
        if endpoint.http_port in self.world.squatted_ports:
            return Health(up=True, model="tiny", version="0.32.0")
        process = self.world.at(endpoint)
        if process is None:
            return Health(up=False, why="connection refused")
        if process.slow:
            return Health(up=False, why="timeout after 5 s")
        await self.world.clock.sleep(process.lag_s)
        return Health(up=True, model="tiny", version="0.32.0")

    async def warm(self, endpoint: Endpoint, model: str) -> Health:
        self.warmings += 1
        await self.world.clock.sleep(0.5)
        process = self.world.at(endpoint)
        if process is None or self.cold:
            return Health(up=False, why=self.cold or "connection refused")
        while process.wedged:
            await self.world.clock.sleep(1.0)
        process.warmed = True
        process.iterations += 1
        return Health(up=True)

    async def handoff(
        self, prefill: Endpoint, decode: Endpoint, model: str, *, lease_s: float
    ) -> ProbeResult:
        self.handoffs += 1
        world, port = self.world, prefill.http_port
        world._probes[port] = world._probes.get(port, 0) + 1
        world.most_probes = max(world.most_probes, world._probes[port])
        try:
            return await self._handoff(prefill, decode)
        finally:
            world._probes[port] -= 1

    async def _handoff(self, prefill: Endpoint, decode: Endpoint) -> ProbeResult:
        ends = (self.world.at(prefill), self.world.at(decode))
        if ends[0] is None or ends[1] is None:
            return ProbeResult(ok=False, message="connection refused")
        key = (ends[0].order.nonce, ends[1].order.nonce)
        first = key not in self.world.seen_pairs
        self.world.seen_pairs.add(key)
        took = self.world.stall_first_s if first and self.world.stall_first_s else None
        took = took or self.world.handoff_s
        await self.world.clock.sleep(took)
        if (ends[0].order.instance_id, ends[1].order.instance_id) in self.world.bad_pairs:
            return ProbeResult(ok=False, message="the KV was recomputed: no transfer was seen")
        return ProbeResult(ok=True, handoff_ms=took * 1000)

    async def scrape(self, endpoint: Endpoint) -> EngineStats | None:
        self.scrapes += 1
        process = self.world.at(endpoint)
        if process is None or process.slow:
            return None
        if process.lag_s:
            await self.world.clock.sleep(min(process.lag_s, 5.0))
            if process.lag_s >= 5.0:
                return None
        return EngineStats(
            at=self.world.clock.now(), running=process.running, iterations=process.iterations,
            kv_usage=process.kv_usage,
        )  # fmt: skip

    async def close(self) -> None:
        return


class FakeDataPlane:
    """Implements `ports.DataPlane`; tells its load as soon as a table has been taken."""

    def __init__(self) -> None:
        self.tables: list[RoutingTable] = []
        self.inflight: dict[str, int] = {}
        self.refuse = False
        self._events: asyncio.Queue[RouterEvent] = asyncio.Queue()

    @property
    def table(self) -> RoutingTable:
        """The table in force."""
        return self.tables[-1]

    @property
    def accepting(self) -> set[str]:
        """Ids that new work is sent to."""
        return {target.id for target in self.table.targets if target.accepts}

    async def push(self, table: RoutingTable) -> None:
        if self.refuse:
            raise ConnectionError("the router is away")
        assert not self.tables or table.seq > self.tables[-1].seq
        assert RoutingTable.from_json(table.to_json()) == table
        self.tables.append(table)
        self._tell()

    def open(self, id_: str, legs: int) -> None:
        """That many legs are open on an instance now."""
        self.inflight[id_] = legs
        self._tell()

    def suspect(self, id_: str) -> None:
        """A connection to that instance broke."""
        target = self.table.target(id_)
        assert target is not None
        self._events.put_nowait(Suspect(id_, target.generation, "connection reset"))

    def _tell(self) -> None:
        seq = self.tables[-1].seq if self.tables else 0
        busy = {id_: legs for id_, legs in self.inflight.items() if legs}
        self._events.put_nowait(Load(seq, busy))

    async def events(self) -> AsyncIterator[RouterEvent]:
        while True:
            yield await self._events.get()
