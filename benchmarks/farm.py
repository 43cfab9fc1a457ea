"""Simulated engines that all live in one process beside `pdctl serve` (a launcher for benchmarks).

What serve itself costs can be read from its own CPU time then. The farm ends with its launcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from pathlib import Path

import uvloop

from pdctl.adapters.supervision.exits import Announcer
from pdctl.domain.instance import ExitInfo
from pdctl.ports import Clock, LaunchOrder, Lost, Running
from pdctl.simulated import SimulatedEngine
from pdctl.simulated.arguments import parse


class Farm:
    """The launcher: orders go to the farm through a pipe; an end is believed at once."""

    def __init__(self, runtime_dir: Path, clock: Clock) -> None:
        self._clock, self._ends = clock, Announcer()
        self._starts: dict[str, Running] = {}
        command = [sys.executable, "-m", "benchmarks.farm"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    async def launch(self, order: LaunchOrder) -> Running:
        """Hand the order over; it is up a moment later."""
        run = Running(order, None, None, alive=True, started_at=self._clock.now())
        pipe = self._process.stdin
        if self._starts.setdefault(order.nonce, run) is run and pipe is not None:
            pickle.dump(order, pipe)
            pipe.flush()
        return run

    async def terminate(self, nonce: str) -> None:
        """Say that it has ended: the farm itself ends with us."""
        if run := self._starts.get(nonce):
            self._starts[nonce] = replace(
                run, alive=False, exit=ExitInfo(0, None, self._clock.now())
            )
            self._ends.tell(nonce)

    kill = terminate

    async def list(self) -> list[Running]:
        """All that were launched."""
        return list(self._starts.values())

    async def lost(self, nonces: Collection[str] = ()) -> tuple[Lost, ...]:
        """None."""
        return ()

    async def end_lost(self, lost: Lost) -> tuple[int, ...]:
        """Nothing to do."""
        return ()

    def order(self, nonce: str) -> LaunchOrder | None:
        """What began that start."""
        run = self._starts.get(nonce)
        return run.order if run else None

    async def forget(self, nonce: str) -> None:
        """Drop its record."""
        self._starts.pop(nonce, None)

    def log_path(self, instance_id: str, previous: bool = False) -> Path | None:
        """They write none."""
        return None

    def changed(self) -> AsyncIterator[str]:
        """Nonces as they end."""
        return self._ends.listen()

    async def close(self) -> None:
        """End the farm."""
        self._process.kill()
        self._process.wait()


async def _grow() -> None:
    engines = []
    with contextlib.suppress(EOFError):
        while True:
            order = await asyncio.to_thread(pickle.load, sys.stdin.buffer)
            options = parse(order.argv[order.argv.index("pdctl.simulated") + 1 :])
            engines.append(SimulatedEngine(options.config, options.faults))
            await engines[-1].start(
                options.host, options.port, side_channel_port=options.side_channel_port
            )


LAUNCHER = Farm

if __name__ == "__main__":
    uvloop.run(_grow())
