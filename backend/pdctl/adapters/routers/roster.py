"""The folder of workers: who runs, by the record that each wrote of itself; how one is started."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from pdctl.seam import hand, parts
from pdctl.shim import procfs, records

LISTENER_FD = 3
MODULE = "pdctl.router_worker"
OURS = "PDCTL_"
"""Prefix of our own settings: a worker needs none, and some are secret."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One worker process."""

    nonce: str
    pid: int
    start: int
    """Clock ticks after boot: with the pid it names this process and no other."""
    slot: int
    version: str
    host: str
    port: int

    @property
    def started_at(self) -> float:
        """Wall time, UTC seconds."""
        return psutil.boot_time() + self.start / os.sysconf("SC_CLK_TCK")


class Roster:
    """Workers on disk."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._logs: dict[str, Path] = {}
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Look no more."""
        os.close(self._fd)

    def alive(self) -> list[Entry]:
        """Those that run; what the others left behind is removed."""
        names = {path.stem for path in self.home.glob("*.json")}
        found = recorded(self.home)
        for nonce in names - {one.nonce for one in found}:
            self.forget(nonce)
        return found

    def strays(self) -> list[psutil.Process]:
        """Workers of this folder that run without a record: nobody can speak to them."""
        known, here = {one.pid for one in recorded(self.home)}, str(self.home.resolve())
        return [
            one for one in psutil.process_iter(["cmdline"])
            if one.pid not in known and {MODULE, here} <= set(one.info["cmdline"] or ())
        ]  # fmt: skip

    def forget(self, nonce: str) -> None:
        """Remove what a worker left that has ended."""
        self._logs.pop(nonce, None)
        for suffix in (".json", ".json.new", ".sock", ".hand", ".log"):
            (self.home / f"{nonce}{suffix}").unlink(missing_ok=True)

    def socket(self, nonce: str) -> str:
        """A name of the worker's socket that is short enough, however deep the folder lies."""
        return f"/proc/self/fd/{self._fd}/{nonce}.sock"

    def hand(self, nonce: str) -> str:
        """The name of the socket on which it gives its listener away, as short."""
        return f"/proc/self/fd/{self._fd}/{hand.name(nonce)}"

    def spawn(self, slot: int, host: str, port: int, version: str, listener: int | None) -> Entry:
        """Start a worker, on the descriptor `listener` where there is a socket already.

        In its own session, so that neither Ctrl-C nor our end reaches it.
        """
        nonce = secrets.token_hex(6)
        self._logs[nonce], log = parts.begin(parts.folder(self.home, slot))
        argv = [sys.executable, "-m", MODULE, "--home", str(self.home.resolve())]
        argv += ["--nonce", nonce, "--slot", str(slot), "--host", host, "--port", str(port)]
        inherited = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        if listener is not None:
            argv += ["--listener", str(LISTENER_FD)]
            inherited.append((os.POSIX_SPAWN_DUP2, listener, LISTENER_FD))
        try:
            pid = os.posix_spawn(
                sys.executable, argv, environment(os.environ), setsid=True,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *inherited],
            )  # fmt: skip
        finally:
            os.close(log)
        proc = procfs.look(pid)
        return Entry(nonce, pid, proc.start if proc else 0, slot, version, host, port)

    def last_line(self, nonce: str) -> str:
        """The last thing that a worker of ours said."""
        try:
            text = self._logs[nonce].read_text(errors="replace")
        except (KeyError, OSError):
            return ""
        return next((line for line in reversed(text.splitlines()) if line.strip()), "")[-300:]


def recorded(home: Path) -> list[Entry]:
    """Workers that run, by the records in their folder; looks only."""
    every = [_entry(records.read(str(home), path.name)) for path in sorted(home.glob("*.json"))]
    return [one for one in every if one is not None and procfs.alive(one.pid, one.start)]


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a worker inherits: everything but our own settings."""
    return {name: value for name, value in ours.items() if not name.startswith(OURS)}


def _entry(data: dict[str, object] | None) -> Entry | None:
    if data is None or data.get("boot") != procfs.boot_id():
        return None
    try:
        return Entry(
            str(data["nonce"]), int(str(data["pid"])), int(str(data["start"])),
            int(str(data["slot"])), str(data["version"]), str(data["host"]),
            int(str(data["port"])),
        )  # fmt: skip
    except (KeyError, ValueError):
        return None
