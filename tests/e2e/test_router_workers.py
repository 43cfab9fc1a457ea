"""Router workers outlive the control plane, and one of them outlives another."""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import psutil
import pytest

from tests.e2e.conftest import SUBPROCESS, _run
from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import answer, prompt

TOKENS = 900
Workers = list[dict[str, Any]]


class Routers(LiveFleet):
    """A fleet whose front door is served by two processes of their own."""

    def write(self) -> None:
        """The fleet file, with workers."""
        super().write()
        path = self.folder / "fleet.toml"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("[router]\n", "[router]\nworkers = 2\n"), encoding="utf-8")

    def workers(self) -> Workers:
        """Those that listen, by slot."""
        found: Workers = self.fleet()["router"]["workers"]
        return [one for one in found if one["state"] == "listening"]

    def pids(self) -> list[int]:
        """Of the workers that listen."""
        return [one["pid"] for one in self.workers()]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """1 prefill + 1 decode of simulated engines, two router workers."""
    folder = tmp_path_factory.mktemp("routers")
    yield from _run(Routers("simulated", folder, SUBPROCESS, "tiny"))


class Stream:
    """A long stream on a connection of its own, read in a thread."""

    def __init__(self, fleet: LiveFleet, salt: int, tokens: int = TOKENS) -> None:
        self.tokens = tokens
        self.text, self.id, self.error = "", "", ""
        self.done = False
        self.begun, self._fleet, self.salt = threading.Event(), fleet, salt

    def body(self) -> dict[str, Any]:
        """What it asks for."""
        return {
            "prompt": prompt(300, salt=self.salt),
            "max_tokens": self.tokens,
            "ignore_eos": True,
        }

    def read(self) -> Stream:
        """To its end, good or bad."""
        request = {"model": "tiny", "temperature": 0, "stream": True, **self.body()}
        url = f"{self._fleet.router}/v1/completions"
        try:
            with (
                httpx2.Client(timeout=120) as client,
                client.stream("POST", url, json=request) as reply,
            ):
                assert reply.status_code == 200
                self.id = reply.headers["x-request-id"]
                for line in reply.iter_lines():
                    self._take(line.removeprefix("data: "))
        except httpx2.TransportError as error:
            self.error = repr(error)
        finally:
            self.begun.set()
        return self

    def _take(self, line: str) -> None:
        if line == "[DONE]":
            self.done = True
        elif line:
            data = json.loads(line)
            assert "error" not in data, data
            for choice in data["choices"]:
                self.text += choice["text"]
            self.begun.set()


class Streams:
    """Several of them at once."""

    def __init__(self, fleet: LiveFleet, count: int, tokens: int = TOKENS) -> None:
        self.fleet, self._pool = fleet, concurrent.futures.ThreadPoolExecutor(count)
        self.all = [Stream(fleet, salt, tokens) for salt in range(100, 100 + count)]
        self._reading = [self._pool.submit(one.read) for one in self.all]
        assert all(one.begun.wait(60) for one in self.all)
        assert not any(one.done for one in self.all), "they are too short to be interrupted"

    def ended(self) -> list[Stream]:
        """All, once each has ended."""
        return [one.result(timeout=120) for one in self._reading]

    def whole(self) -> list[Stream]:
        """All, each ended well with the text that the fleet writes for it."""
        found = self.ended()
        assert all(one.done and not one.error for one in found), [one.error for one in found]
        again = self._pool.map(lambda one: Stream(self.fleet, one.salt, one.tokens).read(), found)
        assert [one.text for one in found] == [one.text for one in again]
        return found


def ask(fleet: LiveFleet) -> httpx2.Response:
    """A short request on a connection of its own."""
    request = {"model": "tiny", "prompt": "x", "max_tokens": 2}
    return httpx2.post(f"{fleet.router}/v1/completions", json=request, timeout=60)


def test_workers_serve_while_serve_is_dead_and_are_adopted(fleet: Routers) -> None:
    fleet.wait_ready()
    before = fleet.pids()
    assert len(before) == 2
    fleet.stop(signal.SIGTERM)
    assert not any(psutil.pid_exists(pid) for pid in before), "an orderly end leaves no worker"
    fleet.start()
    fleet.wait_ready()
    before = fleet.pids()
    streams = Streams(fleet, 8)
    fleet.stop(signal.SIGKILL)
    new = [answer(fleet, stream=True, prompt=prompt(50, salt=n))[0] for n in range(8)]
    assert all(new), "new requests are served while nobody controls"
    whole = streams.whole()
    lonely = ask(fleet)
    assert lonely.status_code == 200
    fleet.start()
    fleet.wait_ready(seconds=60)
    assert fleet.pids() == before
    wanted = {one.id for one in whole} | {lonely.headers["x-request-id"]}

    def arrived() -> list[str]:
        items = fleet.get("/api/v1/requests", limit=200)["items"]
        found = [one["id"] for one in items if one["id"] in wanted]
        return found if set(found) == wanted else []

    assert len(wait_for("records of the time without serve", arrived, seconds=30)) == len(wanted)
    assert all(new == answer(fleet, stream=True, prompt=prompt(50, salt=n))[0]
               for n, new in enumerate(new))  # fmt: skip


def test_a_killed_worker_cuts_its_own_streams_only(fleet: Routers) -> None:
    fleet.wait_ready()
    wait_for("two workers", lambda: len(fleet.pids()) == 2, seconds=30)
    victim, other = fleet.pids()
    streams = Streams(fleet, 8)
    wait_for("every stream counted", lambda: fleet.fleet()["router"]["inflight"] == 8, seconds=30)
    busy = {one["pid"]: one["inflight"] for one in fleet.workers()}
    os.kill(victim, signal.SIGKILL)
    wait_for("its end", lambda: not _runs(victim), seconds=30)
    assert all(ask(fleet).status_code == 200 for _ in range(20))
    found = streams.ended()
    cut = [one for one in found if one.error]
    assert len(cut) <= busy[victim], "a stream has one open leg or two"
    assert bool(cut) == bool(busy[victim])
    assert all(one.done for one in found if one not in cut)
    wait_for("two workers", lambda: len(fleet.pids()) == 2, seconds=30)
    after = fleet.pids()
    assert other in after
    assert victim not in after
    notices = fleet.get("/api/v1/events", limit=500)["items"]
    assert any(f"process {victim}" in str(one["data"].get("message")) for one in notices)


def test_a_worker_told_to_end_is_replaced_without_loss(fleet: Routers) -> None:
    fleet.wait_ready()
    wait_for("two workers", lambda: len(fleet.pids()) == 2, seconds=30)
    before = fleet.pids()
    stop = threading.Event()
    streams = Streams(fleet, 6)

    def flood() -> int:
        served = 0
        while not stop.is_set():
            reply = ask(fleet)
            assert reply.status_code == 200, reply.text
            served += 1
        return served

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        floods = [pool.submit(flood) for _ in range(2)]
        for pid in before:
            os.kill(pid, signal.SIGTERM)
            wait_for("its successor", functools.partial(_replaced, fleet, pid), seconds=60)
        stop.set()
        assert all(one.result(timeout=60) > 0 for one in floods)
    streams.whole()
    assert not set(before) & set(fleet.pids())
    wait_for("their end", lambda: not any(map(_runs, before)), seconds=60)


def _replaced(fleet: Routers, pid: int) -> bool:
    pids = fleet.pids()
    return pid not in pids and len(pids) == 2


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
