"""What happens when parts die: engines, the control plane, and the orderly end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
import signal
import socket
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import answer, prompt


def pids(fleet: LiveFleet) -> dict[str, int]:
    return {one["id"]: one["pid"] for one in fleet.fleet()["instances"]}


def tree(pid: int) -> list[psutil.Process]:
    leader = psutil.Process(pid)
    return [leader, *leader.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("victim", ["decode-0", "prefill-0"])
def test_killed_engine_leaves_nothing_and_comes_back(fleet: LiveFleet, victim: str) -> None:
    fleet.wait_ready()
    before = fleet.instance(victim)
    family = tree(before["pid"])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        caught = pool.submit(_ask_long, fleet)
        wait_for("the request under way", lambda: fleet.fleet()["router"]["inflight"], seconds=30)
        os.kill(before["pid"], signal.SIGKILL)
        wait_for("its whole family gone", lambda: gone(family), seconds=30)
        said = caught.result(timeout=120)
    assert "[DONE]" not in said or "error" not in said, "an error and a good end exclude each other"
    assert "127.0.0.1" not in said
    again = before["generation"] + 1
    wait_for("its next start", lambda: fleet.instance(victim)["generation"] == again, seconds=60)
    fleet.wait_ready()
    after = fleet.instance(victim)
    assert after["exit"]["signal"] == signal.SIGKILL
    assert after["exit"]["last_lines"]
    fleet.complete(prompt=prompt(200, salt=5))
    assert fleet.get("/api/v1/requests", limit=1)["items"][0]["path"] == "pd"


def _ask_long(fleet: LiveFleet) -> str:
    """A long stream; whatever came of it, as text."""
    body = {"model": "tiny", "prompt": prompt(700, salt=6), "max_tokens": 1500, "stream": True}
    text = ""
    with (
        contextlib.suppress(httpx2.RemoteProtocolError),
        httpx2.stream("POST", f"{fleet.router}/v1/completions", json=body, timeout=120) as reply,
    ):
        for chunk in reply.iter_text():
            text += chunk
    return text


def test_killed_control_plane_is_followed_by_one_that_adopts(fleet: LiveFleet) -> None:
    fleet.wait_ready()
    before = pids(fleet)
    fleet.stop(signal.SIGKILL)
    assert all(psutil.pid_exists(pid) for pid in before.values())
    fleet.start()
    fleet.wait_ready(seconds=60)
    assert pids(fleet) == before
    assert answer(fleet, stream=True, prompt=prompt(400, salt=8))[0]
    kinds = fleet.get("/api/v1/events", limit=500)["items"]
    assert any("adopt" in str(one["data"].get("message", "")) for one in kinds)


def test_engines_without_their_records_are_ended_and_replaced_once(fleet: LiveFleet) -> None:
    fleet.wait_ready()
    family = [one for pid in pids(fleet).values() for one in tree(pid)]
    fleet.stop(signal.SIGKILL)
    shutil.rmtree(fleet.folder / "state" / "run")
    fleet.start()
    fleet.wait_ready()
    assert gone(family)
    assert {one["generation"] for one in fleet.fleet()["instances"]} != {1}
    assert "record of its start is lost or damaged" in fleet.tail()
    assert answer(fleet, stream=True, prompt=prompt(400, salt=9))[0]


def test_a_frozen_engine_is_said_to_be_silent_and_comes_back_by_itself(fleet: LiveFleet) -> None:
    fleet.wait_ready()
    before = fleet.instance("decode-0")
    family = tree(before["pid"])
    for one in family:
        one.suspend()
    wait_for(
        "its silence",
        lambda: "does not answer since" in fleet.instance("decode-0")["message"],
        seconds=30,
    )
    for one in family:
        one.resume()
    wait_for("its voice", lambda: not fleet.instance("decode-0")["message"], seconds=30)
    assert fleet.instance("decode-0")["generation"] == before["generation"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_leaves_nothing(fleet: LiveFleet, how: signal.Signals) -> None:
    fleet.wait_ready()
    shims = [psutil.Process(one["shim_pid"]) for one in fleet.fleet()["instances"]]
    family = [*shims, *(one for pid in pids(fleet).values() for one in tree(pid))]
    ports = [one["http_port"] for one in fleet.fleet()["instances"]]
    assert fleet.stop(how) == 0, fleet.tail()
    assert gone(family)
    assert not any(map(taken, ports))
    assert not {name for name in shared_memory() if _is_ours(name, family)}
    fleet.start()
    fleet.wait_ready()


def _is_ours(name: str, family: list[psutil.Process]) -> bool:
    return any(str(one.pid) in name for one in family)
