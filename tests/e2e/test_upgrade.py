"""One `pdctl serve` takes another's place under load: nothing is lost, and nothing is restarted."""

from __future__ import annotations

import concurrent.futures
import functools
import signal
import subprocess
import threading
from collections.abc import Iterator

import httpx2
import psutil
import pytest

from tests.e2e.conftest import SUBPROCESS, _run
from tests.e2e.live import ROOT, LiveFleet, wait_for
from tests.e2e.test_router_workers import Routers, Streams, ask


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """1 prefill + 1 decode of simulated engines, two router workers."""
    folder = tmp_path_factory.mktemp("upgrade")
    yield from _run(Routers("simulated", folder, SUBPROCESS, "tiny"))


def test_two_upgrades_in_a_row_lose_no_request(fleet: Routers) -> None:
    fleet.wait_ready()
    engines, workers = fleet.engine_pids(), fleet.pids()
    streams = Streams(fleet, 30, tokens=1500)
    stop = threading.Event()

    def flood() -> int:
        served = 0
        while not stop.is_set():
            reply = ask(fleet)
            assert reply.status_code == 200, reply.text
            served += 1
        return served

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        floods = [pool.submit(flood) for _ in range(2)]
        try:
            for version in ("next", "later"):
                fleet.replace(version)
                fleet.wait_ready(seconds=60)
                assert fleet.engine_pids() == engines
                took_over = functools.partial(_none_of, fleet, workers)
                wait_for("workers of its own version", took_over, seconds=60)
                workers = fleet.pids()
        finally:
            stop.set()
        assert all(one.result(timeout=60) > 0 for one in floods)
    streams.whole()
    verbs = [one["verb"] for one in fleet.get("/api/v1/audit", verb="detach")["items"]]
    assert verbs == ["detach", "detach"]


def _none_of(fleet: Routers, before: list[int]) -> bool:
    """Two workers listen, and none of those that listened before."""
    now = fleet.pids()
    return len(now) == 2 and not set(now) & set(before)


def test_one_that_let_go_leaves_the_front_door_open_for_a_later_one(fleet: Routers) -> None:
    fleet.wait_ready()
    engines, workers = fleet.engine_pids(), fleet.pids()
    assert fleet.stop(signal.SIGUSR2) == 0, fleet.tail()
    with pytest.raises(httpx2.TransportError):
        fleet.get("/livez")
    assert ask(fleet).status_code == 200
    assert all(psutil.pid_exists(pid) for pid in (*engines.values(), *workers))
    fleet.start()
    fleet.wait_ready(seconds=60)
    assert (fleet.engine_pids(), fleet.pids()) == (engines, workers)


def test_where_the_old_one_does_not_answer_nothing_is_changed(fleet: Routers) -> None:
    fleet.wait_ready()
    assert fleet.process is not None
    fleet.process.send_signal(signal.SIGSTOP)
    try:
        late = subprocess.run(
            fleet.argv("--replace"), capture_output=True, text=True, timeout=120, check=False,
            cwd=ROOT,
        )  # fmt: skip
        assert late.returncode == 5, late.stderr
        assert "does not answer; nothing was changed" in late.stderr
        assert ask(fleet).status_code == 200
    finally:
        fleet.process.send_signal(signal.SIGCONT)
    assert ask(fleet).status_code == 200
    assert [one["pid"] for one in fleet.workers()]
    assert fleet.process.poll() is None, "it does not do later what it was not asked in time"
