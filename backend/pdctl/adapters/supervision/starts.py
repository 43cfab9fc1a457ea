"""The folder of one start: the order that began it, who runs it, how it ended.

Layout: <runtime_dir>/<nonce>/ with the records of `pdctl.shim.records`, `log/` and `cwd/`.
Law: a record in which anything has the wrong type was damaged, and counts as absent.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdctl.adapters.store import codec
from pdctl.adapters.supervision import logs
from pdctl.domain import redaction
from pdctl.domain.instance import ExitInfo
from pdctl.ports import LaunchOrder
from pdctl.shim import records

FORGOTTEN = "forgotten"
"""An empty file: nobody needs to be told of this start's end again."""
_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs a start. Start times are clock ticks after boot: a pid alone is reused."""

    boot_id: str
    shim_pid: int
    shim_start: int
    session: int
    pid: int
    start: int
    started_at: float
    """Wall time, UTC seconds."""


def prepare(
    home: Path, order: LaunchOrder, env: Mapping[str, str], *, at: float, **limits: int
) -> None:
    """Make the folder and write the order; OSError when the disk refuses. `at` is wall time."""
    home.mkdir(mode=0o700, parents=True)
    (home / "cwd").mkdir()
    argv_hash = hashlib.sha256("\0".join(order.argv).encode()).hexdigest()[:16]
    data: dict[str, Any] = {
        "nonce": order.nonce,
        "argv": list(order.argv),
        "argv_hash": argv_hash,
        "env": [f"{key}={value}" for key, value in env.items()],
        "order": asdict(order),
        "ordered_at": at,
        **limits,
    }
    records.write(str(home), records.ORDER, data)


def order_of(home: Path) -> LaunchOrder | None:
    """The order that began the start in `home`, or None when the folder is not a start of ours."""
    data: dict[str, Any] = records.read(str(home), records.ORDER) or {}
    try:
        order = codec.decode(LaunchOrder, data["order"])
        return order if _is_sound(order) else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def identity_of(home: Path) -> Identity | None:
    """Who runs it, or None when its shim never came so far, or its record is damaged."""
    data: dict[str, Any] = records.read(str(home), records.SHIM) or {}
    boot_id, at = data.get("boot_id"), _number(data.get("started_at"))
    numbers = [data.get(name) for name in ("shim_pid", "shim_start", "session", "pid", "start")]
    if not (isinstance(boot_id, str) and _BOOT_ID.fullmatch(boot_id)) or at is None:
        return None
    shim_pid, shim_start, session, pid, start = (_natural(number) for number in numbers)
    if not (shim_pid and session and pid) or shim_start is None or start is None:
        return None
    return Identity(boot_id, shim_pid, shim_start, session, pid, start, at)


def footprint_of(home: Path) -> tuple[set[tuple[int, int]], set[tuple[str, int]]]:
    """(process identities, shared-memory segments) that the shim saw last."""
    data: dict[str, Any] = records.read(str(home), records.FOOTPRINT) or {}
    members = {
        (pid, start)
        for first, second in _couples(data.get("members"))
        if (pid := _natural(first)) and (start := _natural(second)) is not None
    }
    segments = {
        (name, inode)
        for name, second in _couples(data.get("segments"))
        if isinstance(name, str) and "/" not in name and (inode := _natural(second))
    }
    return members, segments


def exit_of(home: Path) -> ExitInfo | None:
    """How it ended, secrets masked, or None while it has not, or its record is damaged."""
    data: dict[str, Any] = records.read(str(home), records.EXIT) or {}
    at = _number(data.get("at"))
    if at is None:
        return None
    pids = (_natural(pid) for pid in _items(data.get("survivors")))
    return ExitInfo(
        code=_natural(data.get("code")),
        signal=_natural(data.get("signal")) or None,
        at=at,
        last_lines=tuple(redaction.text(str(line)) for line in _items(data.get("last_lines"))),
        first_error=redaction.text(str(data.get("first_error") or "")),
        survivors=tuple(pid for pid in pids if pid),
    )


def seal(home: Path) -> None:
    """Take the environment, with what its references meant, off the disk: the shim has read it."""
    data: dict[str, Any] | None = records.read(str(home), records.ORDER)
    if data is not None and data.get("env"):
        records.write(str(home), records.ORDER, data | {"env": []})


def forget(home: Path) -> None:
    """Mark an ended start as read, and take the secrets out of its order."""
    (home / FORGOTTEN).touch()
    data, order = records.read(str(home), records.ORDER), order_of(home)
    if data is None or order is None:
        return
    argv, env = redaction.redact(order.argv, order.env)
    kept = asdict(order) | {"argv": argv, "env": list(env.items())}
    data |= {"order": kept, "argv": argv, "env": []}
    records.write(str(home), records.ORDER, data)


def is_forgotten(home: Path) -> bool:
    """Whether somebody has been told of its end."""
    return (home / FORGOTTEN).exists()


def folders(runtime_dir: Path) -> list[str]:
    """The nonces of all starts that have a folder, whatever is left in it."""
    try:
        return [entry.name for entry in runtime_dir.iterdir() if entry.is_dir()]
    except OSError:
        return []


def homes(runtime_dir: Path) -> list[Path]:
    """The folders of all starts that are still on disk, in no order."""
    try:
        return [entry for entry in runtime_dir.iterdir() if (entry / records.ORDER).is_file()]
    except FileNotFoundError:
        return []


def history(runtime_dir: Path, instance_id: str) -> list[Path]:
    """The folders of the starts of one instance, oldest first."""
    mine = []
    for home in homes(runtime_dir):
        data: dict[str, Any] = records.read(str(home), records.ORDER) or {}
        order = data.get("order")
        if isinstance(order, dict) and order.get("instance_id") == instance_id:
            mine.append((_number(data.get("ordered_at")) or 0.0, home))
    return [home for _, home in sorted(mine)]


def log_path(runtime_dir: Path, instance_id: str, previous: bool = False) -> Path | None:
    """The log of an instance's last start, or of the one before; None when there is none."""
    found = history(runtime_dir, instance_id)
    if previous:
        found = found[:-1]
    return logs.newest(found[-1]) if found else None


def prune(runtime_dir: Path, instance_id: str, keep: int) -> None:
    """Remove old read starts of an instance: the last `keep` stay, and the first that failed."""
    read = [home for home in history(runtime_dir, instance_id) if is_forgotten(home)]
    first = next((home for home in read if _failed(home)), None)
    for home in read[:-keep] if keep else read:
        if home != first:
            shutil.rmtree(home, ignore_errors=True)


def _failed(home: Path) -> bool:
    data = records.read(str(home), records.EXIT)
    return data is not None and not data.get("asked")


def _is_sound(order: LaunchOrder) -> bool:
    """Whether everything that others build on has its type: JSON says nothing of types."""
    words = (order.instance_id, order.pool, order.nonce, order.fingerprint, *order.argv)
    words += (order.compat, order.endpoint.host, *(word for pair in order.env for word in pair))
    numbers = (
        order.generation, order.shutdown_timeout_s, order.slot.index, order.slot.http_port,
        order.slot.side_channel_port, order.endpoint.http_port, order.endpoint.side_channel_port,
    )  # fmt: skip
    return (
        all(isinstance(word, str) for word in words)
        and all(_natural(number) is not None for number in numbers)
        and all(len(pair) == 2 for pair in order.env)
    )


def _natural(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _couples(value: object) -> Iterable[tuple[object, object]]:
    return ((one[0], one[1]) for one in _items(value) if isinstance(one, list) and len(one) == 2)
