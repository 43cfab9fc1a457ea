"""Real processes are measured as families; a process that ends meanwhile is only missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.fakes.clock import VirtualClock

from pdctl.adapters.machine.meter import ProcessMeter, proportional
from pdctl.domain.usage import Member

FAMILY = """
import subprocess, sys
held = bytearray(32 << 20)
wait = "print(flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", wait], stdin=-1, stdout=-1)
child.stdout.readline()  # it has started, and takes no more memory
print(child.pid, flush=True)
sys.stdin.read()
child.communicate(b"\\n")
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A process that holds 32 MiB, and its child."""
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as leader:
        assert leader.stdout is not None
        try:
            yield leader.pid, int(leader.stdout.readline())
        finally:
            leader.communicate()


async def test_a_family_is_measured_together(family: tuple[int, int]) -> None:
    leader, child = family
    meter = ProcessMeter(VirtualClock())
    whole = Member("n1", (leader,), leader)
    found = await meter.measure([whole, Member("n2", (child,), child)])
    both, one = found["n1"], found["n2"]
    assert (both.processes, one.processes) == (2, 1)
    assert both.resident > one.resident + (32 << 20)
    assert both.cpu_seconds >= one.cpu_seconds >= 0
    assert both.proportional is not None
    assert (32 << 20) < both.proportional <= both.resident
    assert both.gpus == ()


async def test_what_watches_it_is_not_part_of_it(family: tuple[int, int]) -> None:
    leader, child = family
    found = await ProcessMeter(VirtualClock()).measure([Member("n1", (child, leader), child)])
    assert found["n1"].processes == 1


def test_who_is_gone_is_missing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert ProcessMeter(VirtualClock()).read([Member("n1", (ended.pid,), ended.pid)]) == {}
    assert proportional([ended.pid]) == 0


def test_memory_that_may_not_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    def refuse(self: psutil.Process) -> None:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refuse)
    assert proportional([os.getpid()]) is None
