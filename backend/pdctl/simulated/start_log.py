"""The program's log: the lines of a starting vLLM 0.32 that supervisors read, marked as simulated.

The place in brackets is always `simulated`, so no line can be taken for a real engine's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

from pdctl.simulated.config import KV_ROLES, VERSION, SimConfig
from pdctl.simulated.family import Family

_SHARDS = 4


class StartLog:
    """Writes log lines as API server, EngineCore or Worker."""

    def __init__(self, below: Family | None) -> None:
        me = os.getpid()
        core, worker = (below.core, below.worker) if below else (me, me)
        self._pids = {"APIServer": me, "EngineCore": core, "Worker": worker}

    def line(self, text: str, who: str = "APIServer", level: str = "INFO") -> None:
        """One line of `who`."""
        at = time.strftime("%m-%d %H:%M:%S")
        _write(f"({who} pid={self._pids[who]}) {level} {at} [simulated] {text}\n")

    def announce(self, config: SimConfig) -> None:
        """What vLLM says before it loads anything."""
        self.line(
            f"version {VERSION}, model {config.model_name}: a simulation, nothing is computed"
        )
        self.line("Resolved architecture: SimulatedForCausalLM")
        self.line(f"Using max model len {config.max_model_len}")
        self.line(
            f"Initializing a V1 LLM engine (v{VERSION}) with seed={config.seed}", "EngineCore"
        )

    async def load(self, config: SimConfig, seconds: float) -> None:
        """The lines of loading, spread over `seconds`."""
        pause = seconds / (_SHARDS + 2)
        self.line(f"Starting to load model {config.model_name}...", "Worker")
        name = "Loading safetensors checkpoint shards"
        for shard in range(_SHARDS + 1):
            percent = 100 * shard // _SHARDS
            _write(f"\r{name}: {percent:3d}% Completed | {shard}/{_SHARDS} [simulated]\n")
            await asyncio.sleep(pause)
        self.line(f"Loading weights took {seconds:.2f} seconds", "Worker")
        self.line(f"Model loading took 0.0 GiB memory and {seconds:.6f} seconds", "Worker")
        if config.kv_connector:
            role = KV_ROLES[config.role]
            self.line(f"Registering KV_Caches. simulated, kv_role: {role}", "Worker")
        tokens = config.num_blocks * config.block_size
        share = tokens / config.max_model_len
        self.line(
            f"KV cache size: {tokens:,} tokens, Maximum concurrency for "
            f"{config.max_model_len:,} tokens per request: {share:.2f}x",
            "EngineCore",
        )
        await asyncio.sleep(pause)
        took = "init engine (profile, create kv cache, warmup model) took"
        self.line(f"{took} {pause:.2f} s", "EngineCore")

    def serving(self, url: str) -> None:
        """The lines of a server that now answers."""
        self.line(f"Starting vLLM server on {url} (simulated)")
        _write(f"INFO:     Started server process [{os.getpid()}] (simulated)\n")
        _write("INFO:     Waiting for application startup. (simulated)\n")
        _write("INFO:     Application startup complete. (simulated)\n")


def log_to_stdout(lines: StartLog) -> None:
    """Show this package's log records among the lines."""
    handler = _Handler(lines)
    root = logging.getLogger("pdctl")
    root.addHandler(handler)
    root.setLevel(logging.INFO)


class _Handler(logging.Handler):
    def __init__(self, lines: StartLog) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.line(self.format(record), "EngineCore", record.levelname)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
