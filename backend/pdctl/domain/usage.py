"""What the processes of an instance take of their machine. None is unknown, never zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """An instance as one finds it on the machine."""

    nonce: str
    """Names one start of it."""
    pids: tuple[int, ...]
    """Its leader, and what watches it: the whole family descends from these."""
    leader: int
    device: str = ""
    """Its devices as CUDA numbers them, or their UUIDs; commas between."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One device. All of it, but for `ours`."""

    device: str
    busy: float | None = None
    """0..1: share of time in which a kernel ran."""
    memory_used: float | None = None
    """Bytes."""
    memory_total: float | None = None
    ours: float | None = None
    """Bytes that this instance's processes hold."""
    watts: float | None = None
    celsius: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """One look at all processes of an instance together."""

    at: float
    """Wall time, UTC seconds."""
    processes: int
    cpu_seconds: float
    """User and system time of those that live; less than before when one of them has ended."""
    resident: float
    """Bytes; what processes share is counted in each."""
    proportional: float | None = None
    """Bytes; what processes share is divided among them (PSS). Looked at less often."""
    gpus: tuple[GpuUse, ...] = ()


def cores(before: Usage | None, last: Usage) -> float | None:
    """Cores kept busy between two looks; None without two, or when a process ended between."""
    if before is None or last.at <= before.at or last.cpu_seconds < before.cpu_seconds:
        return None
    return (last.cpu_seconds - before.cpu_seconds) / (last.at - before.at)
