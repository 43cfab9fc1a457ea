"""NVIDIA devices through NVML (the extra `gpu`). Absent, everything of them is unknown."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Collection
from typing import Any

from pdctl.domain.usage import GpuUse

log = logging.getLogger(__name__)


def load() -> Any | None:
    """The NVML binding, ready; None without it, without a driver or without a device."""
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
    except Exception as error:  # an ImportError, or whatever the binding calls a missing driver
        log.debug("no NVML: %s", error)
        return None
    return library


class Gpus:
    """Devices by the name that the fleet file gives them: an index in PCI order, or a UUID."""

    def __init__(self, find: Callable[[], Any | None] = load) -> None:
        self._find = find
        self._nvml: Any | None = None
        self._looked = False

    def read(self, devices: str, pids: Collection[int]) -> tuple[GpuUse, ...]:
        """Each of `devices` (commas between); nothing when none is named or NVML is not there."""
        names = [name.strip() for name in devices.split(",") if name.strip()]
        if not names:
            return ()
        if not self._looked:
            self._nvml, self._looked = self._find(), True
        nvml = self._nvml
        if nvml is None:
            return ()
        return tuple(_use(nvml, name, pids) for name in names)


def _use(nvml: Any, name: str, pids: Collection[int]) -> GpuUse:
    """What a device tells; what it does not (a MIG slice has no utilization) is unknown."""

    def ask(call: str, *args: Any) -> Any | None:
        try:
            return getattr(nvml, call)(handle, *args)
        except nvml.NVMLError:
            return None

    try:
        handle = (
            nvml.nvmlDeviceGetHandleByIndex(int(name))
            if name.isdecimal()
            else nvml.nvmlDeviceGetHandleByUUID(name)
        )
    except nvml.NVMLError:
        return GpuUse(name)
    busy, memory = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetMemoryInfo")
    watts, celsius = ask("nvmlDeviceGetPowerUsage"), ask("nvmlDeviceGetTemperature", 0)
    return GpuUse(
        device=name,
        busy=None if busy is None else busy.gpu / 100,
        memory_used=None if memory is None else float(memory.used),
        memory_total=None if memory is None else float(memory.total),
        ours=_ours(ask("nvmlDeviceGetComputeRunningProcesses"), pids),
        watts=None if watts is None else watts / 1000,
        celsius=None if celsius is None else float(celsius),
    )


def _ours(running: Any | None, pids: Collection[int]) -> float | None:
    """Bytes that `pids` hold; unknown when NVML does not tell (another pid namespace, a vGPU)."""
    held = [one.usedGpuMemory for one in running or () if one.pid in pids]
    if not held or any(size is None for size in held):
        return None
    return float(sum(held))
