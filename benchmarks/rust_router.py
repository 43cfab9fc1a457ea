"""vLLM's own router (the Rust one, `vllm-router` on PyPI) in an environment of its own.

It is fetched once per user; where it cannot be had, the benchmark goes on without it and says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from benchmarks.processes import free_port

PACKAGE = "vllm-router==0.1.17"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "pdctl" / "bench"
UP_S = 60.0


class Missing(Exception):  # noqa: N818 - it says what is missing
    """It cannot be had here."""


def find() -> Path:
    """Its command, installed when it is not there yet; Missing when that fails."""
    home = CACHE / PACKAGE.replace("==", "-")
    command = home / "bin" / "vllm-router"
    if command.exists():
        return command
    sys.stderr.write(f"fetching {PACKAGE} into {home}\n")
    python = str(home / "bin" / "python")
    try:
        for words in ([sys.executable, "-m", "venv", str(home)],
                      [python, "-m", "pip", "install", "-q", PACKAGE]):  # fmt: skip
            subprocess.run(words, check=True, capture_output=True, text=True, timeout=600)
    except (subprocess.SubprocessError, OSError) as error:
        said = str(getattr(error, "stderr", "") or error).strip()
        raise Missing(said.splitlines()[-1] if said else "pip failed") from error
    return command


class RustRouter:
    """It, between one prefill and one decode engine; ended with `stop`."""

    def __init__(self, command: Path, prefill: int, decode: int) -> None:
        port, metrics = free_port(), free_port()
        words = [
            str(command), "--host", "127.0.0.1", "--port", str(port),
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics),
            "--vllm-pd-disaggregation", "--kv-connector", "nixl", "--policy", "round_robin",
            "--prefill", f"http://127.0.0.1:{prefill}", "--decode", f"http://127.0.0.1:{decode}",
            "--log-level", "error",
        ]  # fmt: skip
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(words, stdout=quiet, stderr=quiet)
        self.ports = [port]
        end = time.monotonic() + UP_S
        while not _healthy(port):
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise Missing("it does not start")
            time.sleep(0.1)

    def cpu_s(self) -> float:
        """CPU seconds it has used."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def rss_mib(self) -> float:
        """Memory it holds."""
        return float(psutil.Process(self._process.pid).memory_info().rss / 2**20)

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
