"""The life of the program: bind, load, serve, drain, end, with vLLM's manners.

The port is bound before loading and answers after it; SIGTERM and SIGINT are heard once; while
draining the server still accepts, /health says 200 and new requests end as aborted.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence

from pdctl.simulated import family
from pdctl.simulated.arguments import Options, parse
from pdctl.simulated.engine import SimulatedEngine
from pdctl.simulated.family import Family
from pdctl.simulated.start_log import StartLog, log_to_stdout
from pdctl.tasks import settle, spawn

_STATISTICS_S = 10.0
_DRAIN_LOOK_S = 0.02
_CORE_LOOK_S = 0.2


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop; the exit code."""
    options = parse(argv)
    below = None
    try:
        below = family.start() if options.with_engine_core else None
        listener = _bind(options.host, options.port)
        return asyncio.run(_serve(options, listener, below))
    except OSError as error:
        sys.stderr.write(f"simulated engine on {options.host}:{options.port}: {error}\n")
        return 1
    finally:
        if below is not None:
            below.close()


def _bind(host: str, port: int) -> socket.socket:
    """A socket that owns the port and listens only once the engine is loaded."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


async def _serve(options: Options, listener: socket.socket, below: Family | None) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    lines = StartLog(below)
    log_to_stdout(lines)
    lines.announce(options.config)
    loading = spawn(lines.load(options.config, options.startup_delay), name="loading")
    waiting = spawn(stopping.wait(), name="stop signal")
    await asyncio.wait({loading, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if stopping.is_set():
        await settle(loading)
        return 0
    engine = SimulatedEngine(options.config, options.faults)
    engine.exits_process = True
    await engine.start(
        options.host,
        options.port,
        side_channel_port=options.side_channel_port,
        listener=listener,
    )
    lines.serving(engine.url)
    watchers = [spawn(_report(engine, lines), name="statistics")]
    if below is not None:
        watchers.append(spawn(_watch_core(below, engine, stopping), name="engine core"))
    await stopping.wait()
    await _drain(engine, lines, options.shutdown_timeout)
    await settle(*watchers)
    await engine.stop()
    lines.line("Application shutdown complete.")
    return 0


async def _drain(engine: SimulatedEngine, lines: StartLog, seconds: float) -> None:
    """Let work end for up to `seconds`: unfinished requests, and blocks nobody has pulled yet."""
    engine.drain()
    mode = "drain" if seconds > 0 and not engine.server.is_dead else "abort"
    lines.line(f"Shutting down: mode={mode}, timeout={seconds:g}s")
    if mode == "abort":
        return
    deadline = asyncio.get_running_loop().time() + seconds
    while engine.has_work and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_DRAIN_LOOK_S)
    if engine.has_work:
        lines.line("Shutdown timeout: requests under way are cut", level="WARNING")
    # The last answers are still on their way to their clients.
    await asyncio.sleep(_DRAIN_LOOK_S)


async def _report(engine: SimulatedEngine, lines: StartLog) -> None:
    """vLLM's throughput line, every ten seconds in which something happened."""
    metrics, scheduler = engine.metrics, engine.scheduler
    before = (0.0, 0.0)
    while True:
        await asyncio.sleep(_STATISTICS_S)
        now = (metrics.prompt_tokens.value, metrics.generation_tokens.value)
        if now == before and not scheduler.has_work:
            continue
        prompt, generated = ((b - a) / _STATISTICS_S for a, b in zip(before, now, strict=True))
        before = now
        lines.line(
            f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation "
            f"throughput: {generated:.1f} tokens/s, Running: {scheduler.num_running()} reqs, "
            f"Waiting: {scheduler.num_waiting()} reqs, KV cache usage: "
            f"{100 * scheduler.kv_usage():.1f}%"
        )


async def _watch_core(below: Family, engine: SimulatedEngine, stopping: asyncio.Event) -> None:
    """An engine whose core died is dead: /health says so, and the program ends soon after."""
    while not below.is_dead():  # noqa: ASYNC110 - a child gives no event without a thread
        await asyncio.sleep(_CORE_LOOK_S)
    engine.server.is_dead = True
    stopping.set()
