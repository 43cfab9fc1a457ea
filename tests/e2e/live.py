"""A live fleet under test: `pdctl serve` as an operator starts it, watched from outside."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

ROOT = Path(__file__).resolve().parents[2]

FLEET = """
[fleet]
name = "e2e-{kind}"
model = "{model}"
served_name = "tiny"
mode = "pd"

[engine]
kind = "{kind}"
{engine}

[connector]
name = "nixl"
lease = "{lease_s}s"
buffer_device = "cpu"

[pools.prefill]
role = "prefill"
size = {sizes[0]}
{prefill}
shutdown_timeout = "{shutdown_s}s"

[pools.decode]
role = "decode"
size = {sizes[1]}
{decode}
shutdown_timeout = "{shutdown_s}s"

[router]
port = {router}

[ports]
http = "{http}-{http_last}"
side_channel = "{side}-{side_last}"
"""

OTHER = (
    "import sys, pdctl.app.front as front; front.__version__ = sys.argv.pop(1); "
    "from pdctl.cli.main import main; main()"
)
"""pdctl as if it were of another version."""


def wait_for(what: str, check: Callable[[], Any], *, seconds: float) -> Any:
    """Poll until `check` gives something true; fail naming what was awaited and seen last."""
    deadline, seen = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            seen = check()
        except (httpx2.TransportError, KeyError) as error:
            seen = error
        if seen and not isinstance(seen, Exception):
            return seen
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen in {seconds:.0f} s; last seen: {seen!r}")


def free_ports(count: int) -> list[int]:
    """Ports outside the ephemeral range that nothing holds now."""
    found: list[int] = []
    for port in range(21000 + os.getpid() % 97 * 100, 32000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                found.clear()
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


@dataclass
class LiveFleet:
    """One fleet: its control plane can be killed and started again by a test."""

    kind: str
    folder: Path
    engine_lines: str
    model: str
    prefill: str = 'cores = ["0"]'
    """More lines of the prefill pool."""
    decode: str = 'cores = ["1"]'
    sizes: tuple[int, int] = (1, 1)
    lease_s: int = 10
    process: subprocess.Popen[bytes] | None = None
    admin: str = ""
    router: str = ""
    http: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=120))
    mode_default: str = "pd"

    def write(self) -> None:
        """The fleet file and the ports."""
        self.folder.mkdir(parents=True, exist_ok=True)
        room = 14 + sum(self.sizes)
        ports = free_ports(4 + 2 * room)
        self.admin, self.router = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        text = FLEET.format(
            kind=self.kind,
            model=self.model,
            engine=self.engine_lines,
            prefill=self.prefill,
            decode=self.decode,
            sizes=self.sizes,
            lease_s=self.lease_s,
            shutdown_s=self.lease_s + 10,
            router=ports[1],
            http=ports[4],
            http_last=ports[3 + room],
            side=ports[4 + room],
            side_last=ports[-1],
        )
        (self.folder / "fleet.toml").write_text(text, encoding="utf-8")

    def argv(self, *more: str, version: str = "") -> list[str]:
        """How `pdctl serve` is started."""
        program = ["-c", OTHER, version] if version else ["-m", "pdctl"]
        port = self.admin.rpartition(":")[2]
        folder = ["--state-dir", str(self.folder / "state"), "--admin-port", port]
        file = ["--file", str(self.folder / "fleet.toml")]
        return [sys.executable, *program, "serve", *file, *folder, *more]

    def start(self) -> None:
        """Start `pdctl serve` in its own session, like a service manager."""
        assert self.process is None or self.process.poll() is not None
        self._spawn(self.argv())

    def replace(self, version: str = "") -> subprocess.Popen[bytes]:
        """Put a new control plane in the place of the running one; the old one, which has ended."""
        old = self.process
        assert old is not None
        self._spawn(self.argv("--replace", version=version))
        assert old.wait(timeout=120) == 0, self.tail()
        return old

    def _spawn(self, argv: list[str]) -> None:
        with (self.folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )

    def wait_ready(self, seconds: float = 240) -> dict[str, Any]:
        """Wait until every instance is ready and every pair has proved a handoff."""

        def ready() -> dict[str, Any] | None:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"pdctl serve has ended with code {self.process.returncode}")
            fleet = self.fleet()
            phases = [one["phase"] for one in fleet["instances"]]
            pairs = [one["state"] for one in fleet["pairs"]]
            prefills, decodes = self.sizes
            done = phases == ["ready"] * (prefills + decodes)
            done = done and pairs == ["ok"] * (prefills * decodes)
            return fleet if done else None

        try:
            return dict(wait_for("a ready fleet", ready, seconds=seconds))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def tail(self) -> str:
        """The end of serve's own log."""
        text = (self.folder / "serve.log").read_text(encoding="utf-8", errors="replace")
        return text[-4000:]

    def get(self, path: str, **query: Any) -> Any:
        """GET on the admin API."""
        answer = self.http.get(self.admin + path, params=query)
        answer.raise_for_status()
        return answer.json()

    def fleet(self) -> dict[str, Any]:
        """The fleet as the API shows it."""
        return dict(self.get("/api/v1/fleet"))

    def instance(self, id_: str) -> dict[str, Any]:
        """One instance as the API shows it."""
        return dict(self.get(f"/api/v1/instances/{id_}"))

    def engine_pids(self) -> dict[str, int]:
        """Of the engines, by instance."""
        return {one["id"]: one["pid"] for one in self.fleet()["instances"]}

    def set_mode(self, mode: str) -> None:
        """Switch the routing mode."""
        self.http.put(f"{self.admin}/api/v1/mode", json={"mode": mode}).raise_for_status()

    def complete(self, **body: Any) -> dict[str, Any]:
        """One completion through the front door."""
        request = {"model": "tiny", "temperature": 0, "max_tokens": 8, **body}
        answer = self.http.post(f"{self.router}/v1/completions", json=request)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def engines(self) -> list[psutil.Process]:
        """Every process below the shims of this fleet, found by the state folder in their argv."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline"]):
            if str(self.folder) in " ".join(process.info["cmdline"] or ()):
                found += [process, *_children(process)]
        mine = self.process.pid if self.process else 0
        return [one for one in {one.pid: one for one in found}.values() if one.pid != mine]

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = 90) -> int:
        """Signal the control plane and wait for its end; its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(timeout=seconds)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
