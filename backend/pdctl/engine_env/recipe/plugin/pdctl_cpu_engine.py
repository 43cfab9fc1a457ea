# ruff: noqa: INP001 - a part of the engine environment, not of this package
"""A vLLM plugin for CPU engines: what would spin next to a GPU waits instead.

Two loops burn the cores that compute. NIXL's Python binding sets its progress thread's delay to 0
whatever the caller wants; and readers of vLLM's shared-memory queue poll for a whole second after
each message, so that EngineCore and Worker of two small instances fill four cores.

PDCTL_NIXL_PROGRESS_DELAY_US: microseconds between NIXL's polls (default 100; 0 leaves NIXL alone).
PDCTL_QUEUE_SPIN_US: microseconds a queue reader polls after a message before it sleeps between
looks (default 0; a negative number leaves vLLM as it is).
"""

import atexit
import gc
import os
import time
from typing import Any

NIXL_VARIABLE, NIXL_DELAY_US = "PDCTL_NIXL_PROGRESS_DELAY_US", 100
QUEUE_VARIABLE, QUEUE_SPIN_US = "PDCTL_QUEUE_SPIN_US", 0
BUSY_SECONDS, BUSY_LOOK_MS, IDLE_LOOK_MS = 1.0, 1, 50


def number(variable: str, default: int) -> int:
    """The variable's whole number; what is no number counts as the default."""
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default


def register() -> None:
    """Entry point: vLLM calls it in each of its processes, possibly more than once."""
    delay, spin = number(NIXL_VARIABLE, NIXL_DELAY_US), number(QUEUE_VARIABLE, QUEUE_SPIN_US)
    if delay > 0:
        slow_nixl_progress(delay)
    if spin >= 0:
        shorten_queue_spin(spin / 1e6)
    # At its end a process hunts for garbage among all of torch's objects: seconds on a busy core,
    # longer than vLLM waits before it kills. Frozen objects are not searched.
    atexit.register(gc.freeze)


def slow_nixl_progress(delay_us: int) -> None:
    """Makes every NIXL agent of this process wait at least delay_us between two polls."""
    # vLLM sets this before it imports NIXL itself, and complains when someone was faster.
    os.environ.setdefault("UCX_RCACHE_MAX_UNRELEASED", "1024")
    try:
        from nixl._api import nixlBind
    except ImportError:
        return  # no NIXL here, nothing to slow down
    original = nixlBind.nixlAgentConfig
    if getattr(original, "pdctl_delay_us", None) is not None:
        return

    class PatientAgentConfig(original):  # type: ignore[misc, valid-type]
        """NIXL's agent configuration, refusing a progress delay shorter than ours."""

        pdctl_delay_us = delay_us

        def __setattr__(self, name: str, value: object) -> None:
            if name == "pthrDelay" and isinstance(value, int):
                value = max(value, delay_us)
            super().__setattr__(name, value)

    nixlBind.nixlAgentConfig = PatientAgentConfig


def shorten_queue_spin(seconds: float) -> None:
    """Makes queue readers of this process sleep between looks after that many seconds of polling.

    vLLM's own wake-up is sent through a socket that drops it when two messages follow closely, so a
    reader that merely waited for it could sleep for seconds: it comes back to look on its own too.
    """
    try:
        from vllm.distributed.device_communicators.shm_broadcast import SpinCondition
    except ImportError:
        return  # another vLLM, whose queues are built differently
    if getattr(SpinCondition, "pdctl_spin", None) is not None:
        return
    wait_for_wake_up = SpinCondition.wait

    def wait(self: Any, timeout_ms: int | None = None) -> None:
        """Polls, dozes or sleeps, by how long ago this queue's last message was read."""
        self.busy_loop_s = min(self.busy_loop_s, seconds)
        busy = time.monotonic() - self.last_read < BUSY_SECONDS
        longest = BUSY_LOOK_MS if busy else IDLE_LOOK_MS
        wait_for_wake_up(self, longest if timeout_ms is None else min(timeout_ms, longest))

    SpinCondition.pdctl_spin = seconds
    SpinCondition.wait = wait
