"""One fleet under `pdctl serve`, started as an operator starts it, looked at from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from crashtest.fleets import ROOT, SPAN, Ports
from crashtest.scene import Kind, Process, Scene, Watcher, listening, sockets
from pdctl.client.admin import AdminClient

STOP_S = 90.0
"""How long an orderly end may take: streams, then leases, then engines."""
GONE_S = 30.0
_FIRST, _LAST = 21000, 31000
"""Outside the ephemeral range."""


@dataclass
class World:
    """The control plane may be killed and started again; everything else outlives it."""

    folder: Path
    ports: Ports
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        self.file = self.folder / "fleet.toml"
        self.log = self.folder / "serve.log"
        self.watcher = Watcher(self.state)
        self.admin = f"http://127.0.0.1:{self.ports.admin}"
        self.router = f"http://127.0.0.1:{self.ports.router}"
        self.client = AdminClient(self.admin)

    def start(self, text: str = "") -> None:
        """Start `pdctl serve` in a session of its own, the first time with the fleet's file."""
        if text:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.file.write_text(text, encoding="utf-8")
        if self.process is not None:
            self.process.wait()  # it has been killed, or has ended by itself
        paths = [str(ROOT / "backend"), str(ROOT / "console"), os.environ.get("PYTHONPATH", "")]
        argv = [sys.executable, "-m", "pdctl", "serve", "--file", str(self.file)]
        argv += ["--state-dir", str(self.state), "--admin-port", str(self.ports.admin)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            )  # fmt: skip

    def ended(self) -> int | None:
        """The exit code of the control plane; None while it runs."""
        return self.process.poll() if self.process else None

    async def stop(self) -> int:
        """An orderly end; its exit code. TimeoutError when it does not come."""
        assert self.process is not None  # noqa: S101 - it was started
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_S):
            while (code := self.process.poll()) is None:  # noqa: ASYNC110 - a child gives no event
                await asyncio.sleep(0.05)
        return code

    async def look(self) -> Scene:
        """The scene now."""
        return await asyncio.to_thread(self.watcher.look)

    async def remains(self) -> list[str]:
        """What is left after the end, given a moment to go; empty when nothing is."""
        left: list[str] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_S):
                while left := await asyncio.to_thread(self._left):  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
        return left

    def listeners(self, scene: Scene) -> dict[Process, set[int]]:
        """The ports on which each process can take connections."""
        ports = listening(self.ports.base, self.ports.base + SPAN - 1)
        return {
            one: {ports[inode] for inode in sockets(one.pid) & ports.keys()}
            for one in scene.processes
        }

    def taken(self) -> set[int]:
        """Ports of the engines' bands on which somebody listens."""
        return set(listening(self.ports.http[0], self.ports.side[1]).values())

    def end_everything(self) -> None:
        """SIGKILL to whoever is left: nothing may outlive the tool, whatever has failed."""
        for _ in range(50):
            left = self.watcher.look().processes
            for one in sorted(left, key=lambda one: one.kind is not Kind.CONTROL):
                one.send(signal.SIGKILL)
            if self.process is not None:
                self.process.poll()
            if not left:
                break
        for name in self.watcher.leaked():
            Path("/dev/shm", name).unlink(missing_ok=True)  # noqa: S108 - it is ours

    def _left(self) -> list[str]:
        scene = self.watcher.look()
        ports = listening(self.ports.base, self.ports.base + SPAN - 1)
        return [
            *(named(scene, one) for one in scene.processes),
            *(f"somebody listens on port {port}" for port in sorted(set(ports.values()))),
            *(f"shared memory {name}" for name in sorted(self.watcher.leaked())),
        ]


def named(scene: Scene, one: Process) -> str:
    """A process as people know it."""
    whose = scene.instance(one) or one.nonce
    return f"{one.kind}{f' of {whose}' if whose else ''} (pid {one.pid})"


@asynccontextmanager
async def world(folder: Path, text: str, ports: Ports) -> AsyncIterator[World]:
    """A started fleet; whatever happens, nothing of it is left."""
    here = World(folder, ports)
    here.start(text)
    try:
        yield here
    finally:
        await here.client.close()
        here.end_everything()


def free_ports() -> Ports:
    """A band that nobody listens in now."""
    for base in range(_FIRST + os.getpid() % 20 * SPAN, _LAST, SPAN):
        if not listening(base, base + SPAN - 1) and _bindable(base):
            return Ports(base)
    raise OSError(f"no {SPAN} free ports in a row between {_FIRST} and {_LAST}")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
