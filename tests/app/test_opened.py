"""An opened bundle: what was recorded, through the same API, and nothing that can be changed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests.e2e.live import wait_for
from tests.fakes.records import record
from tests.fakes.world import spec

from pdctl import __version__
from pdctl.adapters.store.bundle import bundled
from pdctl.adapters.store.repository import SqlStore
from pdctl.domain.bundle import Manifest
from pdctl.domain.events import Event, EventKind
from pdctl.domain.ids import Seq

NOW = 1_800_000_000.0


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A bundle of a night."""
    store = await SqlStore.open(f"sqlite+aiosqlite:///{tmp_path / 'one.db'}")
    try:
        rng = random.Random(3)
        await store.save_revision(spec(), actor="ada", reason="first", at=NOW - 9000)
        await store.add_requests([record(rng, n, NOW - 250 + n) for n in range(200)])
        pair = {"state": "quarantined", "message": "three in a row failed"}
        await store.add_events(
            [Event(Seq(7), NOW - 60, EventKind.PAIR_CHANGED, "prefill-0>decode-0", pair)]
        )
        async with bundled(store, Manifest("x", True, NOW - 600, NOW, "", __version__)) as made:
            return Path(shutil.copy(made, tmp_path / "night.zip"))
    finally:
        await store.close()


def test_it_is_looked_at_and_not_touched(file: Path) -> None:
    command = [sys.executable, "-m", "pdctl", "open", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert "2027-01-15 08:00 UTC: http" in said
            with httpx2.Client(base_url=said.split(": ")[-1].strip()) as http:
                look_around(http)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


def look_around(http: httpx2.Client) -> None:
    wait_for("it answers", lambda: lives(http), seconds=60)
    fleet = http.get("/api/v1/fleet").json()
    assert "This is a bundle of 2027-01-15 08:00 UTC" in fleet["notes"][0]
    assert [one["state"] for one in fleet["pairs"]] == ["quarantined"]
    page = http.get("/api/v1/requests?limit=200").json()
    assert len(page["items"]) == 200
    latency = http.get("/api/v1/histograms?metric=e2e&by=all&window=300").json()
    assert latency["items"][0]["count"] > 100
    for path in ("/", "/requests", "/latency", "/events", "/audit"):
        assert http.get(path).status_code == 200, path
    refused = http.put("/api/v1/mode", json={"mode": "chunked"})
    assert (refused.status_code, refused.json()["code"]) == (403, "bundle")
    assert http.get("/api/v1/bundle").status_code == 404


def lives(http: httpx2.Client) -> bool:
    try:
        return http.get("/livez").status_code == 200
    except httpx2.TransportError:
        return False


def test_what_is_no_bundle_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("hello")
    command = [sys.executable, "-m", "pdctl", "open", str(tmp_path / "x.zip"), "--port", "0"]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=120)
    assert done.returncode == 2
    assert "x.zip is no bundle of pdctl." in done.stderr
