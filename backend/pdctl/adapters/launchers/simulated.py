"""Simulated engines inside this process (ports.Launcher): hundreds of them, no vLLM, no processes.

They end with us, so there is nothing to adopt. The order's argv is that of `python -m
pdctl.simulated`; what needs a process (--with-engine-core) means nothing here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import signal
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from pathlib import Path

from pdctl import tasks
from pdctl.adapters.supervision import logs, starts
from pdctl.adapters.supervision.exits import Announcer
from pdctl.adapters.vllm import progress
from pdctl.domain.errors import EngineError
from pdctl.domain.instance import ExitInfo, Progress
from pdctl.ports import Clock, LaunchOrder, Lost, Running
from pdctl.shim import records
from pdctl.simulated import SimulatedEngine
from pdctl.simulated.arguments import Options, parse

_LINES = (
    "Resolved architecture: SimulatedForCausalLM",
    "Starting to load model (simulated)...",
    "Loading safetensors checkpoint shards:  50% Completed | 1/2 [simulated]",
    "Model loading took 0.0 GiB memory (simulated)",
    "KV cache size: simulated",
)
"""What a start says, evenly spread over its --startup-delay."""
_DRAIN_LOOK_S = 0.05


@dataclass(slots=True)
class _Start:
    order: LaunchOrder
    options: Options
    home: Path
    started_at: float
    engine: SimulatedEngine | None = None
    life: asyncio.Task[None] | None = None
    progress: Progress | None = None
    exit: ExitInfo | None = None
    crashed: bool = False
    said: list[str] = field(default_factory=list)

    def running(self) -> Running:
        """As the port tells it: no pids, for there is no process."""
        return Running(
            order=self.order,
            shim_pid=None,
            pid=None,
            alive=self.exit is None,
            started_at=self.started_at,
            log_path=str(logs.newest(self.home)),
            exit=self.exit,
            progress=self.progress,
        )


class SimulatedLauncher:
    """Starts and stops `SimulatedEngine`s."""

    def __init__(self, runtime_dir: Path, clock: Clock, *, keep_starts: int = 5) -> None:
        self._dir, self._clock = runtime_dir / "simulated", clock
        self._keep = keep_starts
        self._starts: dict[str, _Start] = {}
        self._ends = Announcer()

    async def launch(self, order: LaunchOrder) -> Running:
        """Start it. Idempotent by nonce. Raises EngineError when the process cannot be started."""
        if order.nonce not in self._starts:
            start = _Start(order, _options(order), self._dir / order.nonce, self._clock.now())
            self._starts[order.nonce] = start
            try:
                starts.prepare(start.home, order, {}, at=start.started_at)
                _open_log(start.home)
            except OSError as error:
                del self._starts[order.nonce]
                raise EngineError(
                    "runtime_dir", f"{start.home} cannot be written: {error}."
                ) from error
            start.life = tasks.spawn(self._live(start), name=f"simulated {order.instance_id}")
        return self._starts[order.nonce].running()

    async def terminate(self, nonce: str) -> None:
        """Drain for the --shutdown-timeout, then end with code 0, as vLLM does. Unknown: no-op."""
        start = self._starts.get(nonce)
        if start is None or start.exit is not None:
            return
        if start.engine is None:
            await self._end(start, code=0)
        elif not start.engine.scheduler.draining:
            start.engine.drain()
            tasks.spawn(self._drain(start), name=f"drain {start.order.instance_id}")

    async def kill(self, nonce: str) -> None:
        """End it at once."""
        if (start := self._starts.get(nonce)) and start.exit is None:
            await self._end(start, signal_=signal.SIGKILL)

    async def list(self) -> list[Running]:
        """Every start of ours that lives or ended unread."""
        return [start.running() for start in self._starts.values()]

    async def lost(self, nonces: Collection[str] = ()) -> tuple[Lost, ...]:
        """None: they end with us."""
        return ()

    async def end_lost(self, lost: Lost) -> tuple[int, ...]:
        """Nothing to do."""
        return ()

    def order(self, nonce: str) -> LaunchOrder | None:
        """What began a start that lives or ended unread; None when there is no such start."""
        start = self._starts.get(nonce)
        return start.order if start else None

    async def forget(self, nonce: str) -> None:
        """Drop the record of an ended start (its log files stay)."""
        start = self._starts.get(nonce)
        if start is not None and start.exit is not None:
            del self._starts[nonce]
            with contextlib.suppress(OSError):
                starts.forget(start.home)
                starts.prune(self._dir, start.order.instance_id, self._keep)

    def changed(self) -> AsyncIterator[str]:
        """Nonces as they end."""
        return self._ends.listen()

    async def close(self) -> None:
        """End all: nothing of ours can outlive us."""
        for start in self._starts.values():
            if start.exit is None:
                await self._end(start, signal_=signal.SIGKILL)

    def log_path(self, instance_id: str, previous: bool = False) -> Path | None:
        """The log of an instance's last start, or of the one before; None when there is none."""
        return starts.log_path(self._dir, instance_id, previous)

    async def _live(self, start: _Start) -> None:
        """Load, then serve until somebody ends it."""
        options = start.options
        for line in _LINES:
            _say(start, line)
            await self._clock.sleep(options.startup_delay / len(_LINES))
        engine = SimulatedEngine(options.config, options.faults)
        try:
            await engine.start(
                options.host, options.port, side_channel_port=options.side_channel_port
            )
        except OSError as error:
            words = os.strerror(error.errno) if error.errno else str(error)
            if error.errno == errno.EADDRINUSE:
                words = f"[Errno {error.errno}] {words}"
            await self._end(start, code=1, why=f"OSError: port {options.port}: {words}")
            return
        start.engine = engine
        options.faults.watchers.append(lambda: self._on_fault(start))
        _say(start, f"Starting vLLM server on {engine.url} (simulated)")
        _say(start, "INFO:     Application startup complete. (simulated)")

    def _on_fault(self, start: _Start) -> None:
        code = start.options.faults.exit_code
        if code is not None and start.exit is None and not start.crashed:
            start.crashed = True
            crash = self._end(start, code=code, why="RuntimeError: simulated crash")
            tasks.spawn(crash, name=f"crash {start.order.instance_id}")

    async def _drain(self, start: _Start) -> None:
        deadline = self._clock.monotonic() + start.options.shutdown_timeout
        while start.engine is not None and start.engine.has_work:
            if self._clock.monotonic() >= deadline:
                break
            await self._clock.sleep(_DRAIN_LOOK_S)
        if start.exit is None:
            await self._end(start, code=0)

    async def _end(
        self, start: _Start, *, code: int | None = None, signal_: int | None = None, why: str = ""
    ) -> None:
        """Record how it ended, then take it down: nobody may end it twice."""
        if why:
            _say(start, why)
        start.exit = ExitInfo(code, signal_, self._clock.now(), tuple(start.said[-40:]), why)
        if start.life is not None and start.life is not asyncio.current_task():
            await tasks.settle(start.life)
        if start.engine is not None:
            await start.engine.stop()
        asked = "" if why else "terminate"
        with contextlib.suppress(OSError):
            records.write(str(start.home), records.EXIT, {"code": code, "asked": asked})
        self._ends.tell(start.order.nonce)


def _options(order: LaunchOrder) -> Options:
    """What `python -m pdctl.simulated` would understand; EngineError with its complaint if not."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return parse(order.argv[order.argv.index("pdctl.simulated") + 1 :])
    except (SystemExit, ValueError):
        said = complaint.getvalue().strip().splitlines() or ["it is no simulated engine's command"]
        raise EngineError("bad_arguments", f"The engine was not started: {said[-1]}.") from None


def _open_log(home: Path) -> None:
    folder = home / records.LOG_DIR
    folder.mkdir()
    (folder / "000.log").touch()
    (folder / records.CURRENT).symlink_to("000.log")


def _say(start: _Start, line: str) -> None:
    """To the log, to the last lines, and to the progress."""
    start.said.append(line)
    start.progress = progress.parse(line, start.progress)
    with contextlib.suppress(OSError), (start.home / records.LOG_DIR / "000.log").open("a") as file:
        file.write(line + "\n")


LAUNCHER = SimulatedLauncher
