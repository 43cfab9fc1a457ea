"""What `pdctl tui` costs beside a fleet of 200 at 1000 requests a second. `make bench-terminal`.

The admin API over a made-up fleet (80 prefill, 120 decode, 9600 pairs) runs in a process of its
own; the console runs in a pseudo-terminal of 200 x 50, and only its own CPU time is counted. The
bar: under 10 % of a core on every screen.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import httpx2
import psutil

ROOT = Path(__file__).resolve().parents[1]
SCREENS = {
    "1": "fleet", "2": "requests", "3": "logs", "4": "events", "5": "pairs", "6": "operations",
    "9": "signals",
}  # fmt: skip
ROWS, COLUMNS = 50, 200
UP_S = 60.0
SETTLE_S = 4.0
"""After a key, before its screen is measured."""


def main() -> None:
    """Measure each screen, and print a row of docs/benchmarks.md for each."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--port", type=int, default=18960)
    words.add_argument("--rate", type=int, default=1000, help="requests a second")
    words.add_argument("--seconds", type=float, default=15.0, help="of each screen")
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="pdctl-bench-") as home:
        served = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.dev_admin", "--state", "huge",
             "--port", str(given.port), "--rate", str(given.rate)], cwd=ROOT,
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{given.port}"
            _answers(url)
            measure(url, given.seconds, home)
            sys.stdout.write(f"{_rate(url):.0f} requests a second in the last minute\n")
        finally:
            served.terminate()
            served.wait()


def measure(url: str, seconds: float, home: str) -> None:
    """The console's share of a core on each screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "XDG_CONFIG_HOME": home}
    command = [str(Path(sys.executable).parent / "pdctl"), "tui", "--url", url]
    tui = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    written = [0]
    threading.Thread(target=_drain, args=(ours, written), daemon=True).start()
    process = psutil.Process(tui.pid)
    time.sleep(SETTLE_S * 2)
    sys.stdout.write("| screen | of a core | kB/s to the terminal |\n|---|---|---|\n")
    for key, name in SCREENS.items():
        os.write(ours, key.encode())
        time.sleep(SETTLE_S)
        used, bytes_, began = _cpu_s(process), written[0], time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        share = (_cpu_s(process) - used) / took
        drawn = (written[0] - bytes_) / took / 1000
        sys.stdout.write(f"| {name} | {share:.1%} | {drawn:.1f} |\n")
        sys.stdout.flush()
    os.write(ours, b"q")
    tui.wait(timeout=UP_S)


def _drain(terminal: int, written: list[int]) -> None:
    """Read what is drawn, as a terminal would."""
    try:
        while found := os.read(terminal, 65536):
            written[0] += len(found)
    except OSError:
        return  # it was closed


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _rate(url: str) -> float:
    """What the server has really seen."""
    found = httpx2.get(f"{url}/api/v1/histograms", params={"by": "all", "window_s": 60}).json()
    return float(max(one["count"] for one in found["items"] if one["metric"] == "e2e")) / 60


def _answers(url: str) -> None:
    until = time.monotonic() + UP_S
    while time.monotonic() < until:
        try:
            if httpx2.get(f"{url}/livez").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.2)
    raise SystemExit("The made-up fleet did not come up.")


if __name__ == "__main__":
    main()
