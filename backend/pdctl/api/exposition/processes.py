"""CPU, memory and devices of the instances' processes. What is unknown or old is absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from pdctl.control.plane import ControlPlane

if TYPE_CHECKING:
    from pdctl.domain.usage import Usage

GPU = (
    ("utilization_ratio", "Share of time in which a kernel ran.", "busy"),
    ("memory_used_bytes", "Memory of the device in use, by whomever.", "memory_used"),
    ("memory_total_bytes", "Memory of the device.", "memory_total"),
    ("memory_instance_bytes", "Memory of the device that this instance holds.", "ours"),
    ("power_watts", "Power draw of the device.", "watts"),
    ("temperature_celsius", "Temperature of the device.", "celsius"),
)


def families(plane: ControlPlane) -> Iterator[Metric]:
    """Processes and devices."""
    seen = list(_fresh(plane))
    cpu = CounterMetricFamily(
        "pdctl_process_cpu_seconds", "User and system time of its processes.", labels=["instance"]
    )
    memory = GaugeMetricFamily(
        "pdctl_process_resident_bytes", "Memory; what they share is counted in each.",
        labels=["instance"],
    )  # fmt: skip
    shared = GaugeMetricFamily(
        "pdctl_process_proportional_bytes", "Memory; what they share is divided among them.",
        labels=["instance"],
    )  # fmt: skip
    count = GaugeMetricFamily("pdctl_processes", "Its processes.", labels=["instance"])
    for instance, usage in seen:
        cpu.add_metric([instance], usage.cpu_seconds)
        memory.add_metric([instance], usage.resident)
        count.add_metric([instance], usage.processes)
        if usage.proportional is not None:
            shared.add_metric([instance], usage.proportional)
    yield from (cpu, memory, shared, count)
    for name, what, field in GPU:
        family = GaugeMetricFamily(f"pdctl_gpu_{name}", what, labels=["instance", "device"])
        for instance, usage in seen:
            for gpu in usage.gpus:
                if (value := getattr(gpu, field)) is not None:
                    family.add_metric([instance, gpu.device], value)
        yield family


def _fresh(plane: ControlPlane) -> Iterator[tuple[str, Usage]]:
    book = plane.usage
    for one in plane.state.fleet.instances if book else ():
        usage = book.of(one) if book else None
        if book and usage and not book.stale(usage):
            yield one.id, usage
