"""`pdctl serve` and `pdctl demo` as processes, with simulated engines: start, use, stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import free_port

DEADLINE_S = 60.0


def pdctl(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pdctl", *(str(word) for word in words)],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S, env={**os.environ, **env},
    )  # fmt: skip


def band(width: int) -> str:
    """Ports in a row that are free now, below the range that the system gives out itself."""
    for first in range(20_000 + os.getpid() % 5000, 32_000, width):
        try:
            for port in range(first, first + width):
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return f"{first}-{first + width - 1}"
    raise AssertionError("no free ports")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    first = band(8)
    low = int(first.partition("-")[0])
    path.write_text(
        '[fleet]\nmodel = "m"\nserved_name = "tiny"\n[engine]\nkind = "simulated"\n'
        f"[pools.prefill]\n[pools.decode]\nsize = 2\n[router]\nport = {free_port()}\n"
        f'[ports]\nhttp = "{low}-{low + 3}"\nside_channel = "{low + 4}-{low + 7}"\n'
    )
    return path


@contextmanager
def serving(fleet: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "pdctl", "serve", "-f", str(fleet), "--admin-port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_serve_is_used_by_the_other_verbs_and_stops_in_order(fleet: Path) -> None:
    port = free_port()
    here = {"PDCTL_ADMIN_PORT": str(port)}
    with serving(fleet, port) as process:
        end = time.monotonic() + DEADLINE_S
        while (status := pdctl("status", "--json", **here)).returncode != 0:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, status.stderr
        seen = json.loads(status.stdout)
        assert seen["shape"] == "1p2d"
        assert seen["simulated"] is True
        switched = pdctl("mode", "chunked", "--wait", **here)
        assert (switched.returncode, switched.stdout) == (0, "chunked\n")
        assert "--role decode" in pdctl("command", "decode-1", **here).stdout
        second = pdctl("serve", "-f", fleet, "--admin-port", free_port())
        assert second.returncode == 5
        assert f"pid {process.pid}" in second.stderr
        assert f"at http://127.0.0.1:{port}" in second.stderr
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        assert out == ""
        assert "stopped" in err
        assert "decode-1 ready" in err
        assert "the fleet is ready: 1p2d, mode pd" in err
    assert pdctl("status", **here).returncode == 4


def test_serve_names_who_holds_its_port(fleet: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        ran = pdctl("serve", "-f", fleet, "--admin-port", port)
    assert ran.returncode in (2, 5)
    assert str(port) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_demo_hands_one_request_over_and_stops(tmp_path: Path) -> None:
    ran = pdctl(
        "demo", "--engine", "simulated", "--once", "--state-dir", tmp_path / "demo",
        PDCTL_ADMIN_PORT=str(free_port()), PDCTL_ROUTER_PORT=str(free_port()),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "prefilled on prefill-0, decoded on decode-0" in ran.stdout
    assert "of KV, TTFT" in ran.stdout
    assert "prefill compute" in ran.stdout
    assert "the fleet is ready" in ran.stderr
    assert (tmp_path / "demo" / "fleet.toml").is_file()
    log = (tmp_path / "demo" / "pdctl.log").read_text()
    assert "fleet: decode-0 starting" in log
    assert "fleet: the fleet is ready: 1p1d, mode pd" in log
