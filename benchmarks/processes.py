"""The processes of the router benchmark: engines, our data plane, and the minimal proxy."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import psutil
import uvloop
from aiohttp import web

from benchmarks.load import PATH
from benchmarks.peer import Peer
from pdctl.adapters.clock import SystemClock
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec
from pdctl.gateway.plane import LocalDataPlane
from pdctl.gateway.runner import Run
from pdctl.routing.signals import Finish
from pdctl.simulated import SimConfig, SimulatedEngine, Timing

STEP_S = 0.05
"""Of an engine that is paced: 20 tokens a second and stream."""


async def serve_engines(timing: Timing) -> None:
    """One prefill and one decode engine."""
    for role in ("prefill", "decode"):
        config = SimConfig(role=role, timing=timing, enable_prefix_caching=False)
        engine = SimulatedEngine(config)
        await engine.start()
        say(engine.port)
    await asyncio.Event().wait()


async def serve_instant() -> None:
    """Engines in which nothing takes time."""
    await serve_engines(Timing.instant())


async def serve_paced() -> None:
    """Engines whose steps take as long as a large model's."""
    await serve_engines(Timing(0.0, STEP_S, 0.0, 0.0, 0.0, 0.0, 0.0))


async def serve_pdctl(prefill: int, decode: int) -> None:
    """The data plane as it is in `pdctl serve`, its events read and thrown away."""
    plane = LocalDataPlane("127.0.0.1", 0, clock=SystemClock())
    await plane.start()
    ends = ((prefill, Role.PREFILL), (decode, Role.DECODE))
    targets = tuple(
        Target(InstanceId(role), role, role, "127.0.0.1", port, 1, accepts=True)
        for port, role in ends
    )
    pair = (InstanceId(Role.PREFILL), InstanceId(Role.DECODE))
    await plane.push(RoutingTable(1, Mode.PD, "tiny", "nixl", 30.0, RouterSpec(), targets, (pair,)))
    say(int(plane.url.rsplit(":", 1)[1]))
    async for _ in plane.events():
        pass


async def serve_unrecorded(prefill: int, decode: int) -> None:
    """The same data plane, but finished requests leave no record."""

    async def leave_none(_: Run, __: Finish) -> None:
        return None

    Run._DO[Finish] = leave_none  # noqa: SLF001 - nothing else may switch recording off
    await serve_pdctl(prefill, decode)


async def serve_peer(prefill: int, decode: int) -> None:
    """The minimal proxy."""
    peer = Peer(f"http://127.0.0.1:{prefill}{PATH}", f"http://127.0.0.1:{decode}{PATH}")
    runner = web.ServerRunner(web.Server(peer.handle, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    say(runner.addresses[0][1])
    await asyncio.Event().wait()


def say(port: int) -> None:
    """Tell the parent where we listen."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


class Child:
    """A process of ours, ended when the benchmark ends."""

    def __init__(self, kind: str, *args: int, ports: int = 1) -> None:
        command = [sys.executable, "-m", "benchmarks.processes", kind, *map(str, args)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        self.ports = [int(self._process.stdout.readline()) for _ in range(ports)]

    def cpu_s(self) -> float:
        """CPU seconds it has used."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def rss_mib(self) -> float:
        """Memory it holds."""
        return float(psutil.Process(self._process.pid).memory_info().rss / 2**20)

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


KINDS: dict[str, Any] = {
    "instant": serve_instant, "paced": serve_paced, "pdctl": serve_pdctl, "peer": serve_peer,
    "unrecorded": serve_unrecorded,
}  # fmt: skip

if __name__ == "__main__":
    uvloop.run(KINDS[sys.argv[1]](*map(int, sys.argv[2:])))
