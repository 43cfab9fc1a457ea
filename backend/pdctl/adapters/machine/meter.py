"""CPU, memory and devices of whole families of processes (control.usage.Meter)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psutil

from pdctl.adapters.machine.gpu import Gpus
from pdctl.domain.usage import Member, Usage
from pdctl.ports import Clock
from pdctl.shim import procfs

PROPORTIONAL_EVERY_S = 60.0
"""The kernel walks every page of a process for it: milliseconds for each gigabyte."""


@dataclass(frozen=True, slots=True)
class _Shared:
    at: float
    size: float | None


class ProcessMeter:
    """One pass over /proc for all instances, in a thread."""

    def __init__(self, clock: Clock, gpus: Gpus | None = None) -> None:
        self._clock, self._gpus = clock, gpus or Gpus()
        self._shared: dict[str, _Shared] = {}

    async def measure(self, members: Sequence[Member]) -> dict[str, Usage]:
        """Every member that is there, by nonce."""
        return await asyncio.to_thread(self.read, members)

    def read(self, members: Sequence[Member]) -> dict[str, Usage]:
        """The same, blocking."""
        table = procfs.everyone()
        found = {}
        for one in members:
            pids = procfs.descendants(set(one.pids), table) | {one.leader}
            if usage := self._usage(one, [pid for pid in pids if pid in table]):
                found[one.nonce] = usage
        self._shared = {key: value for key, value in self._shared.items() if key in found}
        return found

    def _usage(self, one: Member, pids: Sequence[int]) -> Usage | None:
        count, cpu, resident = 0, 0.0, 0.0
        for pid in pids:
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info()
            except psutil.Error:
                continue
            count, cpu = count + 1, cpu + times.user + times.system
            resident += memory.rss
        if not count:
            return None
        return Usage(
            at=self._clock.now(), processes=count, cpu_seconds=cpu, resident=resident,
            proportional=self._proportional(one.nonce, pids),
            gpus=self._gpus.read(one.device, pids),
        )  # fmt: skip

    def _proportional(self, nonce: str, pids: Sequence[int]) -> float | None:
        now, known = self._clock.monotonic(), self._shared.get(nonce)
        if known is None or now - known.at >= PROPORTIONAL_EVERY_S:
            known = self._shared[nonce] = _Shared(now, proportional(pids))
        return known.size


def proportional(pids: Collection[int]) -> float | None:
    """Bytes of these together, shared pages divided; None when one of them may not be read."""
    total = 0.0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
        except psutil.Error:
            return None
    return total
