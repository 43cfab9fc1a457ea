"""What happens to the engines when pdctl is told to stop, and when a part of it breaks."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.clock import VirtualClock
from tests.fakes.waiting import until
from tests.fakes.world import spec

from pdctl.app.life import System
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.handover import Handover


class Part:
    """Plays every part: runs until told to stop, and remembers what it was asked."""

    def __init__(self, *, breaks: bool = False, left: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self.url = "http://127.0.0.1:1"
        self._left, self._breaks = left, breaks
        self._end = asyncio.Event()
        self._patience = asyncio.Event()

    async def run(self) -> None:
        if self._breaks:
            raise RuntimeError("a defect of ours")
        await self._end.wait()

    async def shutdown(self, say: object) -> tuple[str, ...]:
        self.asked.append("shutdown")
        if self._left:
            await self._patience.wait()
        self._end.set()
        return self._left

    async def detach(self) -> None:
        self.asked.append("detach")
        self._end.set()

    def force(self) -> None:
        self.asked.append("force")

    def give_up(self) -> None:
        self.asked.append("give up")
        self._patience.set()

    def stop(self, *_: object) -> Any:
        self._end.set()
        return asyncio.sleep(0)

    def leave(self, *_: object) -> Any:
        self.asked.append("leave")
        return self.stop()

    async def close(self) -> None:
        self._end.set()


def system(reconciler: Part, intake: Part, workers: int = 1) -> System:
    """A system of such parts."""
    handover = handing_over(workers)
    api = SimpleNamespace(state=SimpleNamespace(streams=SimpleNamespace(close=lambda: None)))
    server = SimpleNamespace(run=Part().run, stop=lambda: None)
    face = SimpleNamespace(url="http://127.0.0.1:2", client=Part(), api=api, server=server)
    parts: list[Any] = [face, Part(), reconciler, intake, Part(), Part(), Part(), handover]
    return System(*parts)


def handing_over(workers: int = 1) -> Handover:
    """The real one, of a fleet with so many router workers."""
    desired = spec()
    desired = replace(
        desired, engine=replace(desired.engine, launcher="subprocess"),
        router=replace(desired.router, workers=workers),
    )  # fmt: skip
    return Handover(FleetState(desired), Feed(VirtualClock()))


async def test_a_part_that_breaks_does_not_take_the_engines_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconciler, said = Part(), list[str]()
    ours = system(reconciler, Part(breaks=True))
    monkeypatch.setattr("pdctl.app.life.PARTS_S", 0.1)
    assert await ours.run(None, said.append) == 1
    assert reconciler.asked == ["detach"]
    assert "go on running" in said[-1]


async def test_a_third_signal_leaves_what_does_not_end_and_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconciler, said = Part(left=("decode-0 stopping",)), list[str]()
    monkeypatch.setattr("pdctl.app.life.PARTS_S", 0.1)
    task = asyncio.ensure_future(system(reconciler, Part()).run(None, said.append))
    await until(lambda: len(said) == 1)
    for words in (["shutdown"], ["shutdown", "force"], ["shutdown", "force", "give up"]):
        os.kill(os.getpid(), signal.SIGINT)
        await until(partial(operator.eq, reconciler.asked, words))
    assert await task == 0
    assert said[-1] == "stopped; left behind: decode-0 stopping"


async def test_a_terminal_that_is_gone_does_not_keep_the_fleet_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconciler, heard = Part(), list[str]()

    def say(text: str) -> None:
        heard.append(text)
        if len(heard) > 1:
            raise OSError("Input/output error")

    monkeypatch.setattr("pdctl.app.life.PARTS_S", 0.1)
    task = asyncio.ensure_future(system(reconciler, Part()).run(None, say))
    await until(lambda: len(heard) == 1)
    os.kill(os.getpid(), signal.SIGHUP)
    assert await asyncio.wait_for(task, 20) == 0
    assert reconciler.asked == ["shutdown"]


async def test_one_that_is_asked_to_let_go_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reconciler, said = Part(), list[str]()
    monkeypatch.setattr("pdctl.app.life.PARTS_S", 0.1)
    ours = system(reconciler, Part())
    task = asyncio.ensure_future(ours.run(None, said.append))
    await until(lambda: len(said) == 1)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert await task == 0
    assert reconciler.asked == ["detach"]
    assert getattr(ours.router, "asked") == ["leave"]  # noqa: B009 - it is a part
    assert "go on running" in said[-1]


async def test_a_signal_to_let_go_is_refused_where_requests_would_be_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconciler, said = Part(), list[str]()
    monkeypatch.setattr("pdctl.app.life.PARTS_S", 0.1)
    task = asyncio.ensure_future(system(reconciler, Part(), workers=0).run(None, said.append))
    await until(lambda: len(said) == 1)
    os.kill(os.getpid(), signal.SIGUSR2)
    await until(lambda: len(said) == 2)
    assert "router.workers = 1" in said[-1]
    assert reconciler.asked == []
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == 0
    assert reconciler.asked == ["shutdown"]
