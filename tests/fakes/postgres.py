"""A real PostgreSQL server for the tests, in a folder of its own, reached by a socket there."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]

USER = "pdctl"
SERVANTS = ("postgres", "nobody")
"""Users that may run it in place of root, whom PostgreSQL refuses."""
LEAN = (
    "listen_addresses=",
    "fsync=off",
    "shared_buffers=16MB",
    "max_connections=60",
    "autovacuum=off",
)
PR_SET_PDEATHSIG = 1


def binaries() -> Path | None:
    """The folder with `postgres` and `initdb`; None when this machine has none."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda it: it.parent.name)
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    for place in (*places, *reversed(versions)):
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    return None


@dataclass
class PostgresServer:
    """One server; `url` gives an empty database each time."""

    bin: Path
    folder: Path = field(init=False)
    process: subprocess.Popen[Any] | None = None
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def start(self) -> None:
        """Make a cluster and serve it; two seconds at most on an idle machine."""
        self.folder = Path(tempfile.mkdtemp(prefix="pdctl-pg-"))
        how: dict[str, Any] = {"cwd": self.folder, "stdout": subprocess.DEVNULL}
        if os.geteuid() == 0:
            servant = _servant()
            os.chown(self.folder, servant.pw_uid, servant.pw_gid)
            how |= {"user": servant.pw_uid, "group": servant.pw_gid, "extra_groups": []}
        data = str(self.folder / "data")
        make = [str(self.bin / "initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync"]
        subprocess.run([*make, "-E", "UTF8", "--locale=C"], check=True, timeout=120, **how)
        serve = [str(self.bin / "postgres"), "-D", data, "-k", str(self.folder)]
        for setting in LEAN:
            serve += ["-c", setting]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                serve,
                stderr=log,
                preexec_fn=_end_with_us,  # noqa: PLW1509 - one system call
                **how,
            )

    def stop(self) -> None:
        """End it by its pid and remove everything."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)

    async def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        connection = await self._connect()
        try:
            await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        finally:
            await connection.close()
        return self.url(name)

    def url(self, name: str, driver: str = "postgresql+asyncpg") -> str:
        """The URL of a database on this server."""
        return f"{driver}://{USER}@/{name}?host={self.folder}"

    async def _connect(self) -> asyncpg.Connection:
        async with asyncio.timeout(60):
            while True:
                try:
                    return await asyncpg.connect(
                        host=str(self.folder), user=USER, database="postgres"
                    )
                except (OSError, asyncpg.CannotConnectNowError):
                    assert self.process is not None
                    assert self.process.poll() is None, (self.folder / "log").read_text()
                    await asyncio.sleep(0.02)


def _servant() -> pwd.struct_passwd:
    known = {one.pw_name: one for one in pwd.getpwall()}
    return next(known[name] for name in SERVANTS if name in known)


def _end_with_us() -> None:
    """A killed test run leaves no server behind (the signal is PostgreSQL's fast shutdown)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
