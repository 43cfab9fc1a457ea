"""An engine that somebody started by hand: seen, adopted, served from, sent away; and leftovers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SUBPROCESS, _run
from tests.e2e.live import LiveFleet, wait_for

ByHand = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def own_fleet(tmp_path: Path) -> Iterator[LiveFleet]:
    """A fleet that may change: 1 prefill, 1 decode, room for a second decode."""
    decode = 'cores = ["1", "2"]'
    yield from _run(LiveFleet("simulated", tmp_path / "own", SUBPROCESS, "tiny", decode=decode))


@pytest.fixture
def by_hand(own_fleet: LiveFleet) -> Iterator[ByHand]:
    """Starts the decode engine of a core as an operator would from a shell."""
    text = (own_fleet.folder / "fleet.toml").read_text()
    bands = dict(re.findall(r'^(http|side_channel) = "\d+-(\d+)"', text, re.MULTILINE))
    started: list[subprocess.Popen[bytes]] = []

    def start(nth: int) -> subprocess.Popen[bytes]:
        argv = [
            sys.executable, "-m", "pdctl.simulated", "--role", "decode", "--with-engine-core",
            "--port", str(int(bands["http"]) - nth), "--kv-lease-duration", "10",
            "--side-channel-port", str(int(bands["side_channel"]) - nth),
        ]  # fmt: skip
        env = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "2"}
        with (own_fleet.folder / "by-hand.log").open("ab") as log:
            one = subprocess.Popen(argv, env=env, stdout=log, stderr=log, process_group=0)
        started.append(one)
        return one

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def seen(
    fleet: LiveFleet, pid: int, *, ports: int = 0, part: str = "", seconds: float = 60
) -> dict[str, Any]:
    """The engine that `pid` is a part of, as the API shows it.

    A look may fall between two steps of its start: with `ports` or the name of a `part` it is
    waited for until it shows as many and that one.
    """

    def look() -> dict[str, Any] | None:
        items = fleet.get("/api/v1/orphans", owned=True)["items"]
        for one in items:
            whats = [process["what"] for process in one["processes"]]
            if all(process["pid"] != pid for process in one["processes"]):
                continue
            if len(one["ports"]) >= ports and (not part or part in whats):
                return dict(one)
        return None

    return dict(wait_for(f"an engine of {pid}", look, seconds=seconds))


def test_an_engine_started_by_hand_becomes_an_instance(
    own_fleet: LiveFleet, by_hand: ByHand
) -> None:
    engine = by_hand(0)
    found = seen(own_fleet, engine.pid, ports=2)
    assert (found["kind"], found["core"], found["kv_role"]) == ("foreign", "2", "kv_consumer")
    path = f"{own_fleet.admin}/api/v1/orphans/{found['key']}/adopt"
    refused = own_fleet.http.post(path, json={"pool": "prefill"})
    assert (refused.status_code, refused.json()["code"]) == (409, "other_role")
    done = own_fleet.http.post(path, json={"pool": "decode"})
    assert done.status_code == 202, done.text
    assert done.json()["instance"] == "decode-1"

    wait_for("it is ready", lambda: own_fleet.instance("decode-1")["phase"] == "ready", seconds=60)
    assert own_fleet.instance("decode-1")["pid"] == engine.pid
    assert seen(own_fleet, engine.pid)["kind"] == "adopted"

    def served() -> bool:
        own_fleet.complete(prompt="hello")
        items = own_fleet.get("/api/v1/requests", instance="decode-1")["items"]
        return any(one["path"] == "pd" and one["outcome"] == "ok" for one in items)

    wait_for("it serves a decode leg", served, seconds=60)
    log = own_fleet.http.get(f"{own_fleet.admin}/api/v1/instances/decode-1/logs").text
    assert "Application startup complete" in log

    own_fleet.stop(signal.SIGKILL)
    own_fleet.start()
    wait_for("it is found again", lambda: _phase(own_fleet, "decode-1") == "ready", seconds=60)
    assert engine.poll() is None
    plan = own_fleet.http.post(
        f"{own_fleet.admin}/api/v1/plans", json={"change": {"stop": ["decode-1"]}}
    ).json()
    own_fleet.http.post(f"{own_fleet.admin}/api/v1/plans/{plan['id']}/apply").raise_for_status()
    assert engine.wait(60) == 0
    wait_for("it has left", lambda: _phase(own_fleet, "decode-1") is None, seconds=60)
    assert [one["desired"] for one in own_fleet.fleet()["pools"]] == [1, 1]


def test_what_a_killed_engine_leaves_is_noted_and_ended(
    own_fleet: LiveFleet, by_hand: ByHand
) -> None:
    engine = by_hand(1)
    whole = seen(own_fleet, engine.pid, ports=2, part="EngineCore")
    engine.kill()
    engine.wait()
    core = next(one["pid"] for one in whole["processes"] if one["what"] == "EngineCore")
    left = seen(own_fleet, core)
    assert left["kind"] == "orphaned"

    def noted() -> bool:
        seen(own_fleet, core)
        return any("see: pdctl orphans" in note for note in own_fleet.fleet()["notes"])

    wait_for("a note", noted, seconds=60)
    path = f"{own_fleet.admin}/api/v1/orphans/{left['key']}/kill"
    done = own_fleet.http.post(path)
    assert done.status_code == 200, done.text
    assert (done.json()["kind"], len(done.json()["processes"])) == ("gone", 2)
    again = own_fleet.http.post(path)
    assert (again.status_code, again.json()["code"]) == (409, "identity_moved")
    audit = own_fleet.get("/api/v1/audit", verb="kill_orphan")["items"]
    assert [one["outcome"] for one in audit] == ["done", "refused"]


def _phase(fleet: LiveFleet, id_: str) -> str | None:
    instances = fleet.fleet()["instances"]
    return next((str(one["phase"]) for one in instances if one["id"] == id_), None)
