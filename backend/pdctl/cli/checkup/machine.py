"""Checks of the machine: memory, disk, limits, cores, clock, GPUs."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pdctl.cli import figures, sight
from pdctl.cli.checkup import BAD, INFO, OK, WARN, Check
from pdctl.domain.placement import atoms
from pdctl.domain.topology import FleetSpec

GIB = 2**30
SHM = "/dev/shm"  # noqa: S108 - shared memory itself, not a temporary file
CPU_INSTANCE_BYTES = 3 * GIB
"""What one CPU instance with a tiny model was seen to take."""
SHM_BYTES = GIB
FILES = 4096
DISK_BYTES = 2 * GIB
_TIME_ERROR = 5


def checks(fleet: FleetSpec | None, state_dir: Path) -> Iterator[Check]:
    """All of them, in the order in which they are shown."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("python", OK, f"{version} at {sys.executable}")
    yield _memory(fleet)
    yield _disk(state_dir)
    yield _shared_memory()
    yield _files()
    yield _cores(fleet)
    yield _clock()
    yield gpus(fleet)


def _memory(fleet: FleetSpec | None) -> Check:
    import psutil

    free = int(psutil.virtual_memory().available)
    on_cores = sum(pool.size for pool in fleet.pools if pool.cores) if fleet else 0
    need = on_cores * CPU_INSTANCE_BYTES
    if need > free:
        return Check(
            "memory",
            WARN,
            f"{figures.size(free)} are available, and {on_cores} CPU instances take about "
            f"{figures.size(need)}",
            "Run fewer instances, or lower VLLM_CPU_KVCACHE_SPACE.",
        )
    return Check("memory", OK, f"{figures.size(free)} available")


def _disk(state_dir: Path) -> Check:
    folder = next(one for one in (state_dir, *state_dir.parents) if one.exists())
    if not os.access(folder, os.W_OK):
        return Check(
            "disk", BAD, f"{folder} cannot be written", "Set PDCTL_STATE_DIR to a folder of yours."
        )
    free = shutil.disk_usage(folder).free
    if free < DISK_BYTES:
        return Check(
            "disk",
            WARN,
            f"{figures.size(free)} free for the state in {state_dir}",
            "Free some space: logs and the database grow there.",
        )
    return Check("disk", OK, f"{figures.size(free)} free for the state in {state_dir}")


def _shared_memory() -> Check:
    path = Path(SHM)
    if not path.is_dir():
        return Check(SHM, BAD, "there is none", "vLLM's processes talk through it: mount it.")
    total = shutil.disk_usage(path).total
    if total < SHM_BYTES:
        return Check(
            SHM,
            WARN,
            f"only {figures.size(total)}",
            "In a container: --shm-size=4g (Kubernetes: an emptyDir of medium Memory).",
        )
    return Check(SHM, OK, figures.size(total))


def _files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES:
        return Check(
            "open files",
            WARN,
            f"the limit is {soft}: every stream needs three",
            f"ulimit -n {min(65536, hard) if hard > 0 else 65536} before pdctl serve.",
        )
    return Check("open files", OK, f"limit {soft}")


def _cores(fleet: FleetSpec | None) -> Check:
    have = os.sched_getaffinity(0)
    wanted = {
        atom
        for pool in (fleet.pools if fleet else ())
        for entry in pool.cores[: pool.size]
        for atom in atoms(entry)
    }
    missing = sorted(wanted - {str(core) for core in have})
    if missing:
        return Check(
            "cores",
            BAD,
            f"the fleet wants core {', '.join(missing)}, and this process may use "
            f"{', '.join(str(core) for core in sorted(have))}",
            "Correct `cores` of the pool, or the container's cpuset.",
        )
    return Check("cores", OK, f"{len(have)} usable")


def _clock() -> Check:
    """adjtimex(2) tells whether the kernel's clock is disciplined by anything."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        state = -1
    if state == _TIME_ERROR:
        return Check(
            "clock",
            INFO,
            "not synchronised by this kernel's account",
            "Run chrony or systemd-timesyncd when you compare times of several machines.",
        )
    return Check("clock", OK, "synchronised" if state >= 0 else "cannot be told here")


def gpus(fleet: FleetSpec | None) -> Check:
    """What nvidia-smi lists, against the devices that the fleet names."""
    wanted = {
        atom
        for pool in (fleet.pools if fleet else ())
        for entry in pool.devices[: pool.size]
        for atom in atoms(entry)
    }
    found = sight.gpus()
    if isinstance(found, str):
        if wanted:
            return Check(
                "gpus",
                BAD,
                f"the fleet wants device {', '.join(sorted(wanted))}, and {found}",
                "Install the driver, or give the container its GPUs (--gpus all).",
            )
        return Check("gpus", INFO, f"none found ({found}): CPU and simulated engines only")
    there = {one.index for one in found}
    missing = sorted(one for one in wanted if one.isdecimal() and one not in there)
    shown = "; ".join(
        f"{one.index}: {one.name}, {one.free_mib} of {one.total_mib} MiB free" for one in found
    )
    if missing:
        return Check("gpus", BAD, f"there is no device {', '.join(missing)}. {shown}",
                     "Correct `devices` of the pool.")  # fmt: skip
    return Check("gpus", OK, shown or "nvidia-smi lists none")
