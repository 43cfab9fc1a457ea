"""What a fleet of 200 costs: serve's CPU at rest, and the time to a plan. `make bench-rest`.

80 prefill and 120 decode instances (9600 pairs) are simulated in a process of their own, so that
the CPU time of `pdctl serve` is its own. The bars: under 10 % of a core, and under a second.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import psutil

ROOT = Path(__file__).resolve().parents[1]
FLEET = """
[fleet]
name = "rest"
model = "simulated/tiny"
served_name = "tiny"
mode = "pd"
[engine]
kind = "simulated"
launcher = "farm"
[pools.prefill]
size = {prefill}
[pools.decode]
size = {decode}
[router]
port = {router}
[ports]
http = "{http}-{http_last}"
side_channel = "{side}-{side_last}"
"""
POINTS = "[pdctl.launchers]\nfarm = benchmarks.farm:LAUNCHER\n"
UP_S = 900.0
"""Thousands of pairs prove a handoff each before the fleet is at rest."""


class Served:
    """`pdctl serve` over a farm, from its start to its end."""

    def __init__(self, folder: Path, port: int, prefill: int, decode: int) -> None:
        size, self.folder = prefill + decode, folder
        text = FLEET.format(
            prefill=prefill, decode=decode, router=port + 1, http=port + 10,
            http_last=port + 9 + size + 10, side=port + 20 + size, side_last=port + 29 + 2 * size,
        )  # fmt: skip
        (folder / "fleet.toml").write_text(text, encoding="utf-8")
        points = folder / "points" / "farm-1.dist-info"
        points.mkdir(parents=True)
        (points / "entry_points.txt").write_text(POINTS, encoding="utf-8")
        (points / "METADATA").write_text("Name: farm\nVersion: 1\n", encoding="utf-8")
        self.url, self.size = f"http://127.0.0.1:{port}", size
        self.env = {**os.environ, "PDCTL_URL": self.url}
        self.env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(points.parent)])
        with (folder / "log").open("wb") as log:
            argv = ["serve", "--file", str(folder / "fleet.toml"), "--admin-port", str(port)]
            argv += ["--state-dir", str(folder / "state")]
            self.process = psutil.Popen(
                [sys.executable, "-m", "pdctl", *argv], env=self.env, stdout=log, stderr=log
            )
        self.http = httpx2.Client(base_url=self.url, timeout=60)

    def wait(self) -> float:
        """Until every instance is ready; the seconds that took."""
        began = time.monotonic()
        while time.monotonic() < began + UP_S:
            time.sleep(2)
            try:
                instances = self.http.get("/api/v1/fleet").json()["instances"]
            except httpx2.TransportError:
                continue
            if sum(one["phase"] == "ready" for one in instances) == self.size:
                return time.monotonic() - began
        raise SystemExit("the fleet did not come up")

    def rest(self, seconds: float) -> dict[str, float]:
        """CPU shares of one core, in percent: serve's own, its main thread's, and the farm's."""
        farm = next(one for one in self.process.children() if "benchmarks.farm" in one.cmdline())
        workers = [one for one in psutil.process_iter() if self._is_worker(one)]
        parts: dict[str, Callable[[], float]] = {
            "serve": lambda: _spent(self.process),
            "  its main thread": lambda: _main_thread(self.process),
            "router workers": lambda: sum(map(_spent, workers)),
            "farm": lambda: _spent(farm),
        }
        before, began = {name: read() for name, read in parts.items()}, time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        return {name: 100 * (read() - before[name]) / took for name, read in parts.items()}

    def _is_worker(self, process: psutil.Process) -> bool:
        """They lead sessions of their own, so that they outlive serve."""
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            return "pdctl.router_worker" in words and str(self.folder) in words
        return False

    def plan(self, change: dict[str, Any], words: list[str]) -> tuple[float, float]:
        """Seconds until the API, and until the verb with all of Python's start, shows a plan."""
        began = time.monotonic()
        self.http.post("/api/v1/plans", json={"change": change}).raise_for_status()
        answered = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "pdctl", "plan", *words],
            check=True, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return answered - began, time.monotonic() - answered

    def end(self) -> None:
        """Stop it all."""
        self.http.close()
        for _ in range(2):  # the second time it hurries: 200 orderly ends are nobody's concern here
            self.process.terminate()
            time.sleep(1)
        self.process.wait(120)


def _spent(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _main_thread(process: psutil.Process) -> float:
    own = next(one for one in process.threads() if one.id == process.pid)
    return float(own.user_time + own.system_time)


def main() -> None:
    """Print what it costs, a line each."""
    parser = argparse.ArgumentParser(prog="benchmarks.rest", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look at the rest")
    parser.add_argument("--port", type=int, default=24500, help="first of some 500 ports to use")
    parser.add_argument("--prefill", type=int, default=80)
    parser.add_argument("--decode", type=int, default=120)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder), args.port, args.prefill, args.decode)
        try:
            sys.stdout.write(f"{'all ready after':24}{served.wait():8.1f} s\n")
            sys.stdout.flush()
            time.sleep(10)  # the last words about the start are written
            for name, share in served.rest(args.seconds).items():
                sys.stdout.write(f"{name + ' at rest':24}{share:8.1f} % of a core\n")
            more = args.decode + 1
            api, verb = served.plan({"sizes": {"decode": more}}, [f"decode={more}"])
            sys.stdout.write(f"{'plan, API':24}{api:8.2f} s\n{'plan, pdctl':24}{verb:8.2f} s\n")
        finally:
            served.end()


if __name__ == "__main__":
    main()
