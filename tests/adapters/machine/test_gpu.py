"""NVML through a stand-in with the binding's own names; never run on a GPU here."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from pdctl.adapters.machine import gpu
from pdctl.adapters.machine.gpu import Gpus
from pdctl.domain.usage import GpuUse


class _NVMLError(Exception):
    """As the binding raises it."""


class Nvml:
    """One device of 150 GB, index 0."""

    NVMLError = _NVMLError

    def __init__(self, refused: tuple[str, ...] = (), held: int | None = 100) -> None:
        self._refused, self._held = refused, held

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "_refused"):
            raise _NVMLError(name)
        return object.__getattribute__(self, name)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        if index:
            raise _NVMLError("not found")
        return "handle"

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:  # noqa: N802
        assert name.startswith("GPU-")
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, _: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=43, memory=10)

    def nvmlDeviceGetMemoryInfo(self, _: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=150, used=120, free=30)

    def nvmlDeviceGetPowerUsage(self, _: str) -> int:  # noqa: N802
        return 310_500

    def nvmlDeviceGetTemperature(self, _: str, sensor: int) -> int:  # noqa: N802
        return 54 + sensor

    def nvmlDeviceGetComputeRunningProcesses(self, _: str) -> list[SimpleNamespace]:  # noqa: N802
        return [
            SimpleNamespace(pid=7, usedGpuMemory=self._held),
            SimpleNamespace(pid=8, usedGpuMemory=20),
        ]


WHOLE = GpuUse("0", 0.43, 120.0, 150.0, 100.0, 310.5, 54.0)


def test_a_device_is_read_by_index_and_by_uuid() -> None:
    gpus = Gpus(Nvml)
    assert gpus.read("0", {7}) == (WHOLE,)
    (by_uuid,) = gpus.read("GPU-1234", {7, 8})
    assert (by_uuid.device, by_uuid.ours) == ("GPU-1234", 120.0)
    assert [one.device for one in gpus.read("0, 1", {7})] == ["0", "1"]
    assert gpus.read("1", {7}) == (GpuUse("1"),), "a device that is not there is unknown"
    assert gpus.read("", {7}) == ()


def test_what_a_device_does_not_tell_is_unknown() -> None:
    refused = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage")
    (use,) = Gpus(lambda: Nvml(refused)).read("0", {7})
    assert (use.busy, use.watts) == (None, None)
    assert use.memory_used == 120.0


@pytest.mark.parametrize(("held", "pids"), [(None, {7}), (100, {99})])
def test_memory_of_ours_is_unknown_when_nvml_does_not_say(held: int | None, pids: set[int]) -> None:
    (use,) = Gpus(lambda: Nvml(held=held)).read("0", pids)
    assert use.ours is None


def test_without_nvml_nothing_is_known_and_it_is_looked_for_once() -> None:
    looked = []
    gpus = Gpus(lambda: looked.append(1))
    assert gpus.read("0", {7}) == gpus.read("0", {7}) == ()
    assert len(looked) == 1


def test_a_machine_without_a_driver_has_no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise _NVMLError("driver not loaded")

    monkeypatch.setattr(importlib, "import_module", lambda _: SimpleNamespace(nvmlInit=fail))
    assert gpu.load() is None
