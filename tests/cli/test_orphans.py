"""`pdctl orphans`, with a server and without one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Live, Run, free_port
from tests.fakes.engines import FakeFinder, family, leftover, verbs

from pdctl.domain.orphans import Shim

SHIM = Shim(9, "/other/run", "22", "prefill-0", served=True)


@pytest.fixture
def finder(live: Live, url: str) -> FakeFinder:
    """A machine with a leftover and an engine of another pdctl, behind the live server."""
    del url
    world, one = live.world, FakeFinder([leftover(50), leftover(52), family(60, shim=SHIM)])

    def put() -> None:
        world.plane.orphans = verbs(world, one)

    live.do(put)
    return one


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """A simulated engine that nobody supervises, up or as good as up."""
    port = free_port()
    argv = (sys.executable, "-m", "pdctl.simulated", "--port", str(port), "--side-channel-port",
            str(free_port()), "--with-engine-core")  # fmt: skip
    one = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0)
    try:
        assert one.stdout is not None
        for line in one.stdout:
            if b"startup complete" in line:
                break
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


@pytest.mark.usefixtures("finder")
def test_the_list_is_a_table_and_a_document(run: Run) -> None:
    ran = run("orphans")
    head, core, *_, theirs = ran.out.splitlines()
    assert head.split() == ["KEY", "CLASS", "WHAT", "SINCE", "PORTS", "MEMORY", "WHY"]
    assert "50-500" in core
    assert "3.0 GiB" in core
    assert "API server is gone" in core
    assert "prefill-0 of the pdctl" in theirs
    document = run("orphans", "--json").document
    assert [one["kind"] for one in document["items"]] == ["orphaned", "orphaned", "foreign"]
    assert "list" in run("orphans", "--help").out


def test_all_means_the_orphaned_and_never_somebody_elses(run: Run, finder: FakeFinder) -> None:
    assert run("orphans", "kill", "--all").code == 2, "there is no terminal to ask on"
    assert finder.ended == []
    ran = run("orphans", "kill", "--all", "--yes", "--json")
    assert ran.code == 0
    assert [one["kind"] for one in ran.document["items"]] == ["gone", "gone"]
    assert finder.ended == ["50-500", "52-520"]
    assert "No orphaned engine" in run("orphans", "kill", "--all", "--yes").err


def test_one_failure_does_not_keep_the_others_alive(run: Run, finder: FakeFinder) -> None:
    ran = run("orphans", "kill", "60-600", "50-500", "--yes")
    assert ran.code == 5
    assert "--force" in ran.err
    assert "50-500: Ended: 1 process" in ran.out
    assert finder.ended == ["50-500"]
    assert run("orphans", "kill", "60-600", "--force", "--yes").code == 0
    assert run("orphans", "kill", "--yes").code == 2


def test_a_kill_is_confirmed_by_typing(
    run: Run, finder: FakeFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.cli.orphans._may_ask", lambda _: None)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "yes")
    assert run("orphans", "kill", "50-500").code == 1
    assert finder.ended == []
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "50-500")
    assert run("orphans", "kill", "50-500").code == 0


@pytest.mark.usefixtures("finder")
def test_adopting_says_why_not(run: Run) -> None:
    ran = run("orphans", "adopt", "60-600", "--pool", "decode", "--yes")
    assert ran.code == 5
    assert "subprocess" in ran.err


def test_without_a_server_this_machine_is_looked_at(
    run: Run, engine: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    nobody = ("--url", f"http://127.0.0.1:{free_port()}", "--state-dir", tmp_path)
    listed = run("orphans", *nobody, "--json")
    assert listed.code == 0
    assert "looked at without it" in listed.err
    (mine,) = [one for one in listed.document["items"] if one["pid"] == engine.pid]
    assert (mine["kind"], mine["what"]) == ("foreign", "simulated engine")
    assert len(mine["processes"]) == 3
    ended = run("orphans", "kill", mine["key"], "--yes", *nobody)
    assert (ended.code, engine.wait(20)) == (0, 0)
    assert "Ended: 3 processes" in ended.out
    again = run("orphans", "kill", mine["key"], "--yes", *nobody)
    assert again.code == 5
    assert "not there any more" in again.err


def test_a_server_elsewhere_is_not_replaced_by_this_machine(run: Run) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.2", 0))
        ran = run("orphans", "--url", f"http://127.0.0.2:{deaf.getsockname()[1]}")
    assert ran.code == 4
