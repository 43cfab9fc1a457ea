"""kill -9 of the control plane at every step of a resize, under traffic: the operation goes on."""

from __future__ import annotations

import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import SUBPROCESS
from tests.e2e.conftest import _run as running
from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_router_workers import Routers
from tests.e2e.traffic import flows, traffic

RESUMED = "resumed after a restart of pdctl"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """Its router lives in processes of its own: requests go on while the control plane is away."""
    engine = f"{SUBPROCESS}\nargs = {{ startup-delay = 1.0 }}"
    folder = tmp_path_factory.mktemp("survive")
    cores = 'cores = ["1", "2", "3"]'
    yield from running(Routers("simulated", folder, engine, "tiny", decode=cores))


def pids(fleet: LiveFleet, count: int) -> dict[str, int]:
    """Of so many instances, once a new control plane has found them again."""

    def found() -> dict[str, int] | None:
        instances = fleet.fleet()["instances"]
        ready = [one["phase"] for one in instances] == ["ready"] * count
        return {one["id"]: one["pid"] for one in instances} if ready else None

    return dict(wait_for(f"{count} instances", found, seconds=60))


def begin(fleet: LiveFleet, decode: int) -> dict[str, Any]:
    """Plan and apply a resize; the operation as it was answered."""
    plan = {"change": {"sizes": {"decode": decode}}}
    made = fleet.http.post(f"{fleet.admin}/api/v1/plans", json=plan).raise_for_status().json()
    url = f"{fleet.admin}/api/v1/plans/{made['id']}/apply"
    return dict(fleet.http.post(url).raise_for_status().json())


def killed_after(fleet: LiveFleet, id_: str, steps: int) -> dict[str, Any]:
    """The operation as it was seen last, before its control plane was killed."""

    def far() -> dict[str, Any] | None:
        one: dict[str, Any] = fleet.get(f"/api/v1/operations/{id_}")
        return one if one["steps_done"] >= steps or one["state"] != "running" else None

    seen: dict[str, Any] = wait_for(f"{steps} steps", far, seconds=60)
    fleet.stop(signal.SIGKILL)
    return seen


def ended(fleet: LiveFleet, id_: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        one: dict[str, Any] = fleet.get(f"/api/v1/operations/{id_}")
        return None if one["state"] == "running" else one

    return dict(wait_for("the end of the operation", over, seconds=60))


def leased(fleet: LiveFleet) -> Counter[str]:
    """How many things each instance holds on record."""
    database = sqlite3.connect(fleet.folder / "state" / "pdctl.db")
    try:
        rows = database.execute("SELECT instance, COUNT(*) FROM leases GROUP BY instance")
        return Counter(dict(rows.fetchall()))
    finally:
        database.close()


def killed_at_every_step(fleet: LiveFleet, operation: dict[str, Any]) -> int:
    """See an operation to its end, whatever dies on the way; how often it was taken up again."""
    kills = 0
    for steps in range(operation["steps_total"]):
        if killed_after(fleet, operation["id"], steps)["state"] == "running":
            kills += 1
        fleet.start()
    one = ended(fleet, operation["id"])
    assert one["state"] == "done", one
    assert one["steps_done"] == one["steps_total"]
    assert RESUMED in one["message"]
    told = fleet.get("/api/v1/audit", outcome="resumed", subject="decode", limit=100)["items"]
    assert kills <= sum(entry["operation"] == one["id"] for entry in told)
    return kills


def test_a_resize_goes_on_whenever_its_control_plane_is_killed(served: LiveFleet) -> None:
    before = pids(served, 2)
    with traffic(served) as asked:
        flows(asked)
        grown = killed_at_every_step(served, begin(served, 2))
        larger = pids(served, 3)
        assert larger.items() >= before.items()
        shrunk = killed_at_every_step(served, begin(served, 1))
        after = pids(served, 2)
        assert larger.items() >= after.items()
        flows(asked)
    assert asked.wrong == []
    assert grown >= 2
    assert shrunk >= 1, "its later steps may all be done by the time the first is seen"
    held = {"prefill-0": 3, next(id_ for id_ in after if id_ != "prefill-0"): 3}
    wait_for("two ports and a core for each that stays", lambda: leased(served) == held, seconds=20)
