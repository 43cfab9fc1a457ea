"""Orders for real children that are not vLLM: small scripts, run under real shims."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
import uuid
from collections.abc import Callable

from pdctl.domain.instance import Endpoint, Slot
from pdctl.domain.topology import Role
from pdctl.ports import LaunchOrder, Running
from pdctl.shim import procfs

_numbers = itertools.count()
BASE = getattr(sys, "_base_executable", sys.executable)
"""The plain interpreter: quicker to start than that of a virtual environment."""


def order(
    script: str,
    *args: str,
    instance: str = "",
    nonce: str = "",
    env: tuple[tuple[str, str], ...] = (),
) -> LaunchOrder:
    """An order that runs a Python script."""
    return command(
        BASE, "-S", "-E", "-u", "-c", script, *args, instance=instance, nonce=nonce, env=env
    )


def command(
    *argv: str, instance: str = "", nonce: str = "", env: tuple[tuple[str, str], ...] = ()
) -> LaunchOrder:
    """An order that runs `argv`."""
    number = next(_numbers)
    return LaunchOrder(
        instance_id=instance or f"prefill-{number}",
        pool="prefill",
        role=Role.PREFILL,
        generation=1,
        nonce=nonce or uuid.uuid4().hex,
        fingerprint="f",
        slot=Slot(number, 0, 0),
        endpoint=Endpoint("127.0.0.1", 0, 0),
        argv=argv,
        env=env,
        shutdown_timeout_s=5,
    )


async def until(what: Callable[[], object], *, within_s: float = 20.0, why: str = "") -> None:
    """Wait for `what()` to be true."""
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, why or "it did not happen in time"
        await asyncio.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether no process runs under `pid` (a zombie has ended)."""
    proc = procfs.look(pid)
    return proc is None or proc.dead


def of(found: list[Running], nonce: str) -> Running:
    """The one with that nonce."""
    return next(one for one in found if one.order.nonce == nonce)


FAMILY = """
import os, signal, subprocess, sys, time
child = [sys.executable, "-S", "-E", "-c",
         "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]
grandchild = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
stubborn = subprocess.Popen(child)
nested = subprocess.Popen([sys.executable, "-S", "-E", "-c", grandchild, *child])
loner = subprocess.Popen(child, start_new_session=True)
print("family", stubborn.pid, nested.pid, loner.pid, flush=True)
time.sleep(600)
"""
"""A leader with children that ignore SIGTERM, a grandchild, and a child in a session of its own."""
