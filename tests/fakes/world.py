"""A canned but lively control plane, simulated: for faces, for API tests, for screenshots.

No engine and no router run. `World.plane` is real (feed, log, histograms, intake); what it observes
is made up here, one `tick` per second, deterministic by seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, cast

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.intake import Intake
from pdctl.control.latency import LatencyBook
from pdctl.control.marks import Marks
from pdctl.control.minutes import Minutes
from pdctl.control.plane import Command, ControlPlane
from pdctl.control.request_log import RequestLog
from pdctl.domain.compat import compat
from pdctl.domain.events import DURABLE, EventKind
from pdctl.domain.handoff import Load, RequestRecord, RouterEvent
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import (
    Endpoint,
    EngineStats,
    ExitInfo,
    Instance,
    Pair,
    Progress,
    Slot,
)
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.runs import RunRecord
from pdctl.domain.topology import (
    ConnectorSpec,
    EngineSpec,
    FleetSpec,
    Mode,
    PoolSpec,
    Role,
    SloSpec,
    fingerprint,
)
from pdctl.ports import Clock, Revision
from tests.fakes.memory_store import MemoryStore
from tests.fakes.records import record
from tests.fakes.signals import desk_of
from tests.fakes.usage import WorldUsage
from tests.fakes.verbs import WorldOperations

if TYPE_CHECKING:
    from pdctl.control.operations import Operations

State = Literal["normal", "empty", "failing", "huge"]
SIZES: dict[State, tuple[int, int]] = {
    "normal": (2, 3), "empty": (1, 1), "failing": (2, 3), "huge": (80, 120),
}  # fmt: skip
RECORDS: dict[State, int] = {"normal": 200, "empty": 0, "failing": 60, "huge": 1900}
CRASH = (
    "INFO 11-30 12:00:01 [core.py:94] Initializing a V1 LLM engine",
    "ERROR 11-30 12:00:07 [core.py:702] EngineCore failed to start.",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
)


def spec(state: State = "normal") -> FleetSpec:
    """The desired fleet of a state."""
    prefill, decode = SIZES[state]
    return FleetSpec(
        name="simulated",
        model="models/tiny-llama",
        served_name="tiny",
        mode=Mode.PD,
        engine=EngineSpec(kind="simulated"),
        connector=ConnectorSpec(lease_s=10),
        pools=(
            PoolSpec(PoolName("prefill"), Role.PREFILL, prefill),
            PoolSpec(PoolName("decode"), Role.DECODE, decode),
        ),
        slos=(SloSpec("chat", ttft_ms=500, tpot_ms=50),),
        revision=1,
    )


class ScriptedDataPlane:
    """Tells what it is given; implements `ports.DataPlane` without a router."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[RouterEvent] = asyncio.Queue()

    async def push(self, table: object) -> None:
        """Tables change nothing here."""

    async def events(self) -> AsyncIterator[RouterEvent]:
        while True:
            yield await self.queue.get()


class World:
    """The made-up fleet and the real plane over it."""

    def __init__(self, clock: Clock, state: State, folder: Path, seed: int = 7) -> None:
        self.clock, self.kind, self.folder, self.rng = clock, state, folder, Random(seed)
        self.state = FleetState(spec(state))
        self.feed = Feed(clock)
        self.store = MemoryStore()
        self.requests = RequestLog()
        self.latency = LatencyBook(clock)
        self.data_plane = ScriptedDataPlane()
        self.load = Load(0)
        self.ticks = 0
        self.intake = Intake(
            data_plane=self.data_plane, requests=self.requests, latency=self.latency,
            feed=self.feed, store=self.store, on_load=self._loaded, on_suspect=lambda _: None,
            on_record=lambda _: None, judge=self._judge,
        )  # fmt: skip
        self.plane = ControlPlane(
            state=self.state, feed=self.feed,
            operations=cast("Operations", WorldOperations(self)), requests=self.requests,
            latency=self.latency, store=self.store, clock=clock,
            data_plane_url="http://127.0.0.1:8000", command_view=self._command,
            log_path=self._log_path, read_tail=read_tail, follow=follow, load=lambda: self.load,
            started_at=clock.now(), open_paths=lambda: {"pd": self.load.queued + 3, "chunked": 0},
        )  # fmt: skip
        self.plane.minutes = Minutes(self.latency, self.store, clock)
        self.plane.marks = Marks(self.store, self.feed, clock)
        self.plane.usage = WorldUsage(self.state, clock)
        self.plane.signals = desk_of(self)
        first = Revision(self.state.fleet.desired, "serve", "first start", clock.now())
        self.store.saved.append(first)
        self._populate()

    async def save(
        self, desired: FleetSpec, actor: str, reason: str, run: RunRecord | None = None
    ) -> None:
        """A new revision, where the store takes one."""
        if not self.store.failing:
            at = self.clock.now()
            await self.store.save_revision(desired, actor=actor, reason=reason, at=at, run=run)

    def publish(self, kind: EventKind, subject: str, data: dict[str, Any]) -> None:
        """A fact into the feed, and into the store when it is durable."""
        event = self.feed.publish(kind, subject, data)
        if kind in DURABLE:
            self.store.facts.append(event)

    def change(self, id_: str, phase: Phase, reason: Reason, message: str, **fields: Any) -> None:
        """Put an instance into a phase and say so."""
        one = self.state.fleet.instance(id_)
        assert one is not None
        changed = replace(
            one, phase=phase, reason=reason, message=message, since=self.clock.now(),
            **fields,
        )  # fmt: skip
        instances = [changed if other is one else other for other in self.state.fleet.instances]
        data = {"phase": phase.value, "reason": reason.value, "message": message, "pool": one.pool}
        self.publish(EventKind.INSTANCE_CHANGED, id_, data)
        self._observe(instances, list(self.state.fleet.pairs))

    def tick(self) -> None:
        """One second of life."""
        self.ticks += 1
        if self.kind == "empty":
            return
        now = self.clock.now()
        ready = [one.id for one in self.state.fleet.instances if one.phase is Phase.READY]
        self.load = Load(0, {id_: self.rng.randrange(6) for id_ in ready}, self.rng.randrange(3))
        self.data_plane.queue.put_nowait(self.load)
        per_second = {"normal": 3, "failing": 1, "huge": 120}[self.kind]
        for _ in range(per_second):
            self.data_plane.queue.put_nowait(self._record(now))
        self._observe(
            [self._scraped(one, now) for one in self.state.fleet.instances], self._probed()
        )
        self._walk()
        self._write_logs()

    def requests_end(self, number: int) -> None:
        """So many more requests have ended now."""
        now = self.clock.now()
        for _ in range(number):
            self.data_plane.queue.put_nowait(self._record(now))

    def _walk(self) -> None:
        """Let the last decode instance live through its phases, and restarts come back."""
        moves = {
            Phase.PENDING: (Phase.STARTING, "process started"),
            Phase.STARTING: (Phase.LOADING, "loading weights"),
            Phase.LOADING: (Phase.WARMING, "first request"),
            Phase.WARMING: (Phase.PROBING, "trying a handoff with every prefill instance"),
            Phase.PROBING: (Phase.READY, ""),
            Phase.DRAINING: (Phase.STOPPING, "SIGTERM sent"),
            Phase.STOPPING: (Phase.STARTING, "process started"),
            Phase.BACKOFF: (Phase.PENDING, "trying again"),
        }
        if self.ticks % 4 or self.kind == "failing":
            return
        moving = [one for one in self.state.fleet.instances if one.phase in moves]
        for one in moving[:2]:
            phase, message = moves[one.phase]
            progress = Progress("loading weights", 0.4) if phase is Phase.LOADING else None
            self.change(
                one.id, phase, Reason.DESIRED, message,
                progress=progress, retry_at=None, drain_deadline=None,
            )  # fmt: skip
        last = self.state.fleet.instances[-1]
        if not moving and last.phase is Phase.READY and self.ticks % 20 == 0:
            self._crash(last.id)

    def _crash(self, id_: str) -> None:
        exit_ = ExitInfo(1, None, self.clock.now(), CRASH, CRASH[-1])
        self.change(
            id_, Phase.BACKOFF, Reason.EXITED, "exited with code 1: CUDA out of memory",
            exit=exit_, first_failure=exit_, failures=1, retry_at=self.clock.monotonic() + 4,
        )  # fmt: skip

    def _judge(self, record: RequestRecord) -> RequestRecord:
        return self.plane.goodput.judge(record)

    def _populate(self) -> None:
        if self.kind == "empty":
            return
        now = self.clock.now()
        instances = [
            self._instance(pool, index)
            for pool in self.state.fleet.desired.pools
            for index in range(pool.size)
        ]
        self._observe(instances, self._pairs(instances))
        for one in self.state.fleet.instances[:8]:
            data = {"phase": one.phase.value, "reason": one.reason.value, "message": one.message}
            self.publish(EventKind.INSTANCE_CHANGED, one.id, {**data, "pool": one.pool})
        count = RECORDS[self.kind]
        for number in range(count):
            done = self._record(now - (count - number) * 1.5)
            done = self.plane.goodput.judge(done)
            self.requests.add(done)
            self.latency.add(done)
            self.store.records.append(done)
        for _ in range(30):
            self._write_logs()
        self.store.failing = self.kind == "failing"

    def _record(self, at: float) -> RequestRecord:
        every = self.state.fleet.instances
        prefills = tuple(one.id for one in every if one.role is Role.PREFILL)
        decodes = tuple(one.id for one in every if one.role is Role.DECODE)
        number = len(self.requests) + self.rng.randrange(1_000_000)
        return record(self.rng, number, at, prefills, decodes)

    def _observe(self, instances: list[Instance], pairs: list[Pair]) -> None:
        notes = ("decode-2: no free device; the pool stays at 2",) if self.kind == "failing" else ()
        self.state.set_observed(instances, pairs, notes, self.feed.seq)

    def _instance(self, pool: PoolSpec, index: int) -> Instance:
        id_ = InstanceId(f"{pool.name}-{index}")
        port = 18000 + index + (100 if pool.role is Role.DECODE else 0)
        now = self.clock.now()
        phase = self._first_phase(pool, index)
        broken = phase in (Phase.FAILED, Phase.BACKOFF)
        exit_ = ExitInfo(1, None, now - 5, CRASH, CRASH[-1]) if broken else None
        return Instance(
            id=id_, pool=pool.name, role=pool.role,
            slot=Slot(index, port, port + 200, device=str(index % 8)),
            fingerprint=fingerprint(self.state.fleet.desired, pool),
            compat=compat(self.state.fleet.desired, pool),
            phase=phase,
            reason=Reason.EXITED if broken else Reason.DESIRED,
            message="exited with code 1: CUDA out of memory" if broken else "",
            since=now - 60 * (index + 1), endpoint=Endpoint("127.0.0.1", port, port + 200),
            generation=1, nonce=f"{id_}-n1", pid=40_000 + port, shim_pid=39_000 + port,
            failures=3 if broken else 0,
            retry_at=self.clock.monotonic() + 12 if phase is Phase.BACKOFF else None,
            drain_deadline=self.clock.monotonic() + 90 if phase is Phase.DRAINING else None,
            progress=Progress("loading weights", 0.35) if phase is Phase.LOADING else None,
            stats=EngineStats(at=now) if phase in (Phase.READY, Phase.DRAINING) else None,
            exit=exit_, first_failure=exit_,
        )  # fmt: skip

    def _first_phase(self, pool: PoolSpec, index: int) -> Phase:
        if self.kind == "failing":
            return (Phase.FAILED, Phase.BACKOFF, Phase.UNKNOWN)[index % 3]
        if pool.role is Role.DECODE and index == pool.size - 1:
            return Phase.LOADING
        if pool.role is Role.DECODE and index == pool.size - 2:
            return Phase.DRAINING
        return Phase.READY

    def _pairs(self, instances: list[Instance]) -> list[Pair]:
        now = self.clock.now()
        pairs = []
        for prefill in (one for one in instances if one.role is Role.PREFILL):
            for decode in (one for one in instances if one.role is Role.DECODE):
                ok = decode.phase is Phase.READY and prefill.phase is Phase.READY
                state = "ok" if ok else "failing" if self.kind == "failing" else "untried"
                message = "no KV arrived within 11 s" if state == "failing" else ""
                seen = (now - 5, 14.2) if ok else (None, None)
                pairs.append(Pair(prefill.id, decode.id, state, message, *seen))
        return pairs

    def _probed(self) -> list[Pair]:
        """Every few ticks one pair is heard of."""
        pairs = list(self.state.fleet.pairs)
        if not pairs or self.ticks % 3:
            return pairs
        index = self.rng.randrange(len(pairs))
        pair = pairs[index]
        decode = self.state.fleet.instance(pair.decode)
        if self.kind != "failing" and decode is not None and decode.phase is Phase.READY:
            took = self.rng.uniform(9, 25)
            pairs[index] = replace(pair, state="ok", last_ok=self.clock.now(), handoff_ms=took)
        subject = f"{pair.prefill}>{pair.decode}"
        now = pairs[index]
        data = {"state": now.state, "message": now.message, "handoff_ms": now.handoff_ms}
        self.publish(EventKind.PAIR_CHANGED, subject, data)
        return pairs

    def _scraped(self, one: Instance, now: float) -> Instance:
        if one.phase not in (Phase.READY, Phase.DRAINING):
            return one
        old, rng = one.stats or EngineStats(at=now), self.rng
        handed = rng.randrange(900) if one.role is Role.DECODE else 0
        return replace(one, stats=replace(
            old, at=now, running=rng.randrange(6), waiting=rng.choice((0, 0, 0, 1, 4)),
            kv_usage=min(1.0, max(0.02, (old.kv_usage or 0.3) + rng.uniform(-0.05, 0.05))),
            prompt_tokens_local=old.prompt_tokens_local + rng.randrange(1200) - handed // 2,
            prompt_tokens_cached=old.prompt_tokens_cached + rng.randrange(100),
            prompt_tokens_remote=old.prompt_tokens_remote + handed,
            generation_tokens=old.generation_tokens + rng.randrange(40, 160),
            iterations=old.iterations + 100, nixl_bytes=(old.nixl_bytes or 0) + handed * 1536,
            nixl_transfers=(old.nixl_transfers or 0) + bool(handed),
        ))  # fmt: skip

    def _loaded(self, load: Load) -> None:
        self.load = load

    def _command(self, id_: str) -> Command | None:
        one = self.state.fleet.instance(id_)
        if one is None:
            return None
        port = str(one.endpoint.http_port)
        argv = ["python", "-m", "pdctl.simulated", "--port", port, "--seed", "7"]
        return argv, {"HF_TOKEN": "********", "UCX_TLS": "tcp,sm,self", "PDCTL_INSTANCE": id_}

    def _log_path(self, id_: str, previous: bool) -> Path | None:
        path = self.folder / f"{id_}{'.previous' if previous else ''}.log"
        return path if path.exists() else None

    def _write_logs(self) -> None:
        for one in self.state.fleet.instances[:6]:
            running = self.rng.randrange(6)
            with (self.folder / f"{one.id}.log").open("a", encoding="utf-8") as file:
                file.write(
                    f"INFO [loggers.py:259] Engine 000: {running} running, 0 waiting (simulated)\n"
                )
        if self.kind == "failing" and self.state.fleet.instances:
            name = self.state.fleet.instances[0].id
            text = "\n".join(CRASH) + "\n"
            (self.folder / f"{name}.previous.log").write_text(text, encoding="utf-8")


def read_tail(path: Path, lines: int) -> list[str]:
    """The last lines of a small file."""
    return path.read_text(encoding="utf-8").splitlines()[-lines:] if lines else []


async def follow(path: Path, lines: int) -> AsyncIterator[str]:
    """The last lines, then new ones as they come."""
    seen = max(0, len(read_tail(path, 1_000_000)) - lines)
    while True:
        every = read_tail(path, 1_000_000)
        for line in every[seen:]:
            yield line
        seen = len(every)
        await asyncio.sleep(0.2)
