"""A whole `pdctl serve` on PostgreSQL: what it remembers outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.live import LiveFleet, wait_for
from tests.fakes.postgres import PostgresServer

INSIDE = 'launcher = "simulated"'
"""Engines inside pdctl itself: this is about the store."""


@pytest.fixture
def fleet(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveFleet]:
    url = asyncio.run(postgres.database()).replace("postgresql+asyncpg", "postgresql")
    monkeypatch.setenv("PDCTL_DATABASE_URL", url)
    live = LiveFleet("simulated", tmp_path / "fleet", INSIDE, "tiny")
    live.write()
    live.start()
    try:
        yield live
    finally:
        if live.process is not None and live.process.poll() is None:
            live.stop()
        live.http.close()


def test_history_outlives_a_restart(fleet: LiveFleet) -> None:
    fleet.wait_ready()
    said = fleet.complete(prompt="remember me")["id"]
    fleet.set_mode("chunked")
    log = fleet.get("/api/v1/audit")["items"]
    assert [one["verb"] for one in log] == ["set_mode"]
    before = wait_for("the record", lambda: fleet.get("/api/v1/requests")["items"], seconds=30)
    assert fleet.stop() == 0
    fleet.start()
    fleet.wait_ready()
    after = fleet.get("/api/v1/requests")["items"]
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert said
    assert fleet.fleet()["mode"] == "chunked", "live verbs are remembered"
    assert fleet.get("/api/v1/audit")["items"] == log
    assert [one["author"] for one in fleet.get("/api/v1/revisions")["items"]][-1] == "serve"
    store = next(
        one for one in fleet.get("/readyz", verbose="true")["checks"] if one["name"] == "store"
    )
    assert "postgresql+asyncpg" in store["detail"]
    assert not (fleet.folder / "state" / "pdctl.db").exists()
