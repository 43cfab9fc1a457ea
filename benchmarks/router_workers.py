"""What a first byte costs through a router worker while its control plane is there, and while away.

One worker, two engines without delay; the control plane is a process that takes every fact, and is
killed for the rounds without it. Rounds of the three ways are interleaved.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.load import Way, direct, measure, through
from benchmarks.processes import Child
from pdctl import __version__
from pdctl.adapters.routers.processes import ProcessDataPlane
from pdctl.adapters.routers.roster import Roster
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec


def table_of(prefill: int, decode: int) -> RoutingTable:
    """Both engines, as one pair."""
    ends = ((prefill, Role.PREFILL), (decode, Role.DECODE))
    targets = tuple(
        Target(InstanceId(role), role, role, "127.0.0.1", port, 1, accepts=True)
        for port, role in ends
    )
    pair = (InstanceId(Role.PREFILL), InstanceId(Role.DECODE))
    return RoutingTable(1, Mode.PD, "tiny", "nixl", 30.0, RouterSpec(), targets, (pair,))


async def control(home: Path, port: int, table: RoutingTable) -> None:
    """Take over the worker, or start it, and put away all that it tells."""

    async def never(_: RequestRecord) -> bool:
        return False

    plane = ProcessDataPlane(
        "127.0.0.1", port, workers=1, home=home, version=__version__,
        tell=lambda *_: None, known=never,
    )  # fmt: skip
    await plane.start()
    await plane.push(table)
    sys.stdout.write("up\n")
    sys.stdout.flush()
    async for event in plane.events():
        if isinstance(event, RequestRecord):
            plane.stored([event])


class Control:
    """The control plane in a process of its own."""

    def __init__(self, home: Path, port: int, engines: list[int]) -> None:
        args = ["--control", str(home), str(port), *map(str, engines)]
        command = [sys.executable, "-m", "benchmarks.router_workers", *args]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        self._process.stdout.readline()

    def kill(self) -> None:
        """Without a word to anybody."""
        self._process.kill()
        self._process.wait()


def rounds(home: Path, port: int, engines: list[int], count: int, clients: int) -> list[str]:
    """TTFT medians of the three ways, as lines."""
    found: dict[str, list[dict[str, float]]] = {"direct": [], "present": [], "away": []}
    for _ in range(count):
        found["direct"].append(uvloop.run(measure(Way(direct(*engines)), clients, 0.5)))
        one = Control(home, port, engines)
        found["present"].append(uvloop.run(measure(Way(through(port)), clients, 0.5)))
        one.kill()
        found["away"].append(uvloop.run(measure(Way(through(port)), clients, 0.5)))
    base = statistics.median(row["ttft_p50_ms"] for row in found["direct"])
    lines = []
    for name, rows in found.items():
        p50, p99, rate = (
            statistics.median(row[figure] for row in rows)
            for figure in ("ttft_p50_ms", "ttft_p99_ms", "requests_per_s")
        )
        lines.append(
            f"{clients:>3} {name:<8} TTFT p50 {p50:.2f} ms  p99 {p99:.1f} ms  "
            f"added {p50 - base:+.2f} ms  {rate:.0f} req/s"
        )
    return lines


def main() -> int:
    """Run the benchmark, or its control plane."""
    parser = argparse.ArgumentParser(prog="benchmarks.router_workers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--control", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.control:
        home, port, prefill, decode = args.control
        uvloop.run(control(Path(home), int(port), table_of(int(prefill), int(decode))))
        return 0
    engines = Child("instant", ports=2)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        home = Path(folder) / "router"
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        try:
            for clients in (1, 32):
                lines = rounds(home, port, engines.ports, args.rounds, clients)
                sys.stdout.write("\n".join(lines) + "\n")
        finally:
            engines.stop()
            for worker in Roster(home).alive():
                os.kill(worker.pid, signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
