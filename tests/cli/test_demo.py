"""The demo's parts: its fleet files, its ports, and its companion beside a simulated world."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Live, Run, free_port

from pdctl.adapters.statelock import StateLock
from pdctl.cli import demo, demo_fleet
from pdctl.cli.demo_run import Companion
from pdctl.cli.terminal import ExitCode, Stop, Terminal
from pdctl.client.admin import AdminClient
from pdctl.fleetfile import check
from pdctl.tasks import settle, spawn


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdctl.cli.demo_run.READY_S", 60.0)
    monkeypatch.setattr("pdctl.cli.demo_run.LOOK_S", 0.02)


class Beside:
    """What `serve` hands to a companion."""

    def __init__(self, live: Live, client: AdminClient) -> None:
        self.admin_url = self.router_url = live.url
        self.client, self.stopping = client, asyncio.Event()

    def stop(self) -> None:
        self.stopping.set()


def companion_of(live: Live, **options: bool) -> tuple[Companion, bool]:
    spec, _ = check(demo_fleet.simulated(8000), "demo.toml")
    assert spec is not None
    companion = Companion(Terminal(), spec, **{"request": False, "once": False, **options})

    async def time_passes() -> None:
        while True:
            await asyncio.to_thread(live.do, live.world.tick)
            await asyncio.sleep(0.02)

    async def go() -> bool:
        async with AdminClient(live.url) as client:
            served: Any = Beside(live, client)
            ticking = spawn(time_passes(), name="time passes")
            await companion(served)
            await settle(ticking)
            return bool(served.stopping.is_set())

    return companion, asyncio.run(go())


def test_it_shows_the_start_and_says_where_everything_is(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    companion, stopped = companion_of(live)
    caught = capsys.readouterr()
    assert companion.failure == ""
    assert not stopped
    assert "decode-0 ready" in caught.err
    assert "the fleet is ready" in caught.err
    assert f"web console   {live.url}" in caught.out
    assert f"pdctl tui --url {live.url}" in caught.out


def test_once_stops_it_and_names_no_door_that_is_closed(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    assert companion_of(live, once=True)[1]
    assert "web console" not in capsys.readouterr().out


def test_a_router_that_fails_ends_the_demo_with_a_sentence(live: Live) -> None:
    companion, stopped = companion_of(live, request=True)  # the admin API routes no prompts
    assert stopped
    assert "The router answered 40" in companion.failure


def test_an_instance_that_was_given_up_ends_the_demo_with_its_own_words(tmp_path: Path) -> None:
    with Live("failing", tmp_path) as sick:
        companion, stopped = companion_of(sick)
    assert stopped
    assert "could not be started" in companion.failure
    assert "CUDA out of memory" in companion.failure


@pytest.mark.parametrize("text", [demo_fleet.simulated(8000), None])
def test_its_fleet_files_have_no_mistakes(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5}, raising=False)
    (tmp_path / "config.json").touch()
    text = text or demo_fleet.real(8000, Path(sys.executable), tmp_path)
    spec, mistakes = check(text, "demo.toml")
    assert mistakes == ()
    assert spec is not None
    assert spec.shape == "1p1d"
    assert spec.engine.launcher == "subprocess"  # it can be killed, and adopted
    if spec.engine.kind == "vllm":
        assert (spec.pools[0].cores, spec.pools[1].cores) == (("2",), ("5",))
        assert (spec.connector.lease_s, spec.connector.buffer_device) == (10, "cpu")
        assert dict(spec.engine.args) == {"dtype": "float32", "enforce-eager": True}


def test_a_machine_with_one_core_has_no_cores_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    (tmp_path / "config.json").touch()
    spec, mistakes = check(demo_fleet.real(8000, Path(sys.executable), tmp_path), "demo.toml")
    assert mistakes == ()
    assert spec is not None
    assert spec.pools[0].cores == ()


def test_ports_that_are_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        chosen = demo.free_port(Terminal(), "PDCTL_ADMIN_PORT", port, "admin API", ())
        assert port < chosen <= port + demo.TRIES
        said = capsys.readouterr().err
        assert f"held by pid {os.getpid()}" in said
        assert "(PDCTL_ADMIN_PORT chooses another)" in said
        monkeypatch.setenv("PDCTL_ADMIN_PORT", str(port))
        with pytest.raises(Stop, match="held by pid") as refused:
            demo.free_port(Terminal(), "PDCTL_ADMIN_PORT", 8080, "admin API", ())
    assert refused.value.code == ExitCode.CONFLICT


def test_ports_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("PDCTL_ROUTER_PORT", str(port))
    assert demo.free_port(Terminal(), "PDCTL_ROUTER_PORT", 8000, "router", ()) == port
    with pytest.raises(Stop, match="is the admin API's port") as refused:
        demo.free_port(Terminal(), "PDCTL_ROUTER_PORT", 8000, "router", (port,))
    assert "Stop that process" not in refused.value.sentence
    for wrong in ("70000", "abc", "0"):
        monkeypatch.setenv("PDCTL_ROUTER_PORT", wrong)
        with pytest.raises(Stop, match="1 to 65535"):
            demo.free_port(Terminal(), "PDCTL_ROUTER_PORT", 8000, "router", ())


def test_a_second_demo_leaves_the_first_ones_file_alone_and_says_where_it_is(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "fleet.toml").write_text("the first one's")
    lock = StateLock(tmp_path)
    lock.announce("http://127.0.0.1:18080")
    ran = run("demo", "--engine", "simulated", "--state-dir", tmp_path)
    lock.release()
    assert ran.code == ExitCode.CONFLICT
    assert f"(pid {os.getpid()}) serves from {tmp_path} at http://127.0.0.1:18080" in ran.err
    assert "PDCTL_STATE_DIR" in ran.err
    assert "port" not in ran.err
    assert (tmp_path / "fleet.toml").read_text() == "the first one's"


def test_changes_are_told_only_while_the_demo_is_up(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, _ = check(demo_fleet.simulated(8000), "demo.toml")
    assert spec is not None
    companion = Companion(Terminal(), spec, request=False, once=False)
    companion.tell(0.0, "decode-0 loading")
    served: Any = Beside(live, AdminClient(live.url))
    companion._served = served
    companion.tell(0.0, "decode-0 backoff: killed")
    served.stop()
    companion.tell(0.0, "decode-0 stopping")
    told = capsys.readouterr().err
    assert told.endswith("  decode-0 backoff: killed\n")
    assert told.count("\n") == 1
