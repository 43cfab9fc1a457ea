"""8 prefill and 24 decode instances, 500 streams at a time, and every live change under them.

The engines live inside pdctl's process and write slowly, so that two cores are enough for all.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import pytest

from pdctl import tasks
from tests.e2e.conftest import _run as running
from tests.e2e.live import LiveFleet, wait_for
from tests.e2e.test_handoff import answer, prompt
from tests.e2e.traffic import change, ids, pdctl

STREAMS = 500
TOKENS = 30
STEP_S = 0.25
"""Between two tokens of a stream."""
ENGINE = """launcher = "simulated"
[engine.args]
step-base-s = {step}
max-num-seqs = {seqs}
"""
LEASE_S = 60
"""So long that KV still waits for who pulls it late, on a machine with much else to do."""
ELASTIC = "elastic = true"


class Crowd:
    """Clients that never stop asking; what came of it all."""

    def __init__(self, fleet: LiveFleet) -> None:
        self._url = f"{fleet.router}/v1/completions"
        self._bodies = [{"prompt": prompt(200 + n, salt=n), "max_tokens": TOKENS} for n in range(8)]
        with ThreadPoolExecutor(len(self._bodies)) as pool:
            asked = pool.map(lambda body: answer(fleet, stream=False, **body)[0], self._bodies)
            self._texts = list(asked)
        self.open = self.done = 0
        self.wrong = Counter[str]()
        self._leaving = asyncio.Event()
        self._clients: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crowd:
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=180)
        )
        self._clients = [tasks.spawn(self._ask(n), name=f"client {n}") for n in range(STREAMS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leaving.set()
        await asyncio.wait(self._clients, timeout=180)
        await tasks.settle(*self._clients)
        await self._http.close()

    async def flows(self, more: int = STREAMS) -> None:
        """Let requests that begin from now on come to their end, all clients at it."""
        seen = self.done + self.open
        await until("more answers", lambda: self.done >= seen + more)
        await until("all clients under way", lambda: self.open >= STREAMS * 0.95)

    async def _ask(self, first: int) -> None:
        for turn in itertools.count(first):
            if self._leaving.is_set():
                return
            self.open += 1
            try:
                await self._one(turn % len(self._bodies))
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
                self.wrong[repr(error)] += 1
            self.open -= 1
            self.done += 1

    async def _one(self, which: int) -> None:
        body = {"model": "tiny", "temperature": 0, "stream": True, **self._bodies[which]}
        text, ended = "", False
        async with self._http.post(self._url, json=body) as reply:
            if reply.status != 200:
                self.wrong[f"{reply.status} {await reply.text()}"] += 1
                return
            async for line in reply.content:
                if line == b"data: [DONE]\n":
                    ended = True
                elif line.startswith(b"data: "):
                    text += "".join(one["text"] for one in json.loads(line[6:])["choices"])
        if not ended:
            self.wrong["cut"] += 1
        elif text != self._texts[which]:
            self.wrong[f"{text!r} is not {self._texts[which]!r}"] += 1


async def until(what: str, check: Callable[[], Any], *, seconds: float = 180) -> Any:
    """`wait_for` beside the clients."""
    return await asyncio.to_thread(wait_for, what, check, seconds=seconds)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """8P24D."""
    engine = ENGINE.format(step=STEP_S, seqs=256)
    yield from running(
        LiveFleet(
            "simulated", tmp_path_factory.mktemp("big"), engine, "tiny",
            ELASTIC, ELASTIC, (8, 24), LEASE_S,
        )
    )  # fmt: skip


async def test_size_role_and_mode_change_under_500_streams(big: LiveFleet) -> None:
    async with Crowd(big) as crowd:
        await crowd.flows()
        await asyncio.to_thread(change, big, "resize", "prefill=9", "decode=26")
        await crowd.flows(STREAMS // 2)
        await asyncio.to_thread(change, big, "resize", "prefill=8", "decode=24")
        mover = min(id_ for id_ in ids(big) if id_.startswith("decode"))
        there = await asyncio.to_thread(change, big, "move", mover, "--role", "prefill")
        assert "nothing is loaded" in there["change"][0]
        assert big.fleet()["shape"] == "9p23d"
        await crowd.flows(STREAMS // 2)
        await asyncio.to_thread(big.set_mode, "chunked")
        await crowd.flows(STREAMS // 2)
        await asyncio.to_thread(big.set_mode, "pd")
        await asyncio.to_thread(change, big, "move", mover, "--role", "decode")
        await crowd.flows()
    assert crowd.wrong == Counter()
    assert big.fleet()["shape"] == "8p24d"


async def test_all_roll_to_other_flags_and_undo_comes_in_the_middle(big: LiveFleet) -> None:
    big.wait_ready()
    file = big.folder / "other.toml"
    text = (big.folder / "fleet.toml").read_text(encoding="utf-8")
    file.write_text(text.replace("max-num-seqs = 256", "max-num-seqs = 255"), encoding="utf-8")
    before = {one["id"]: one["generation"] for one in big.fleet()["instances"]}

    def renewed() -> int:
        now = {one["id"]: one["generation"] for one in big.fleet()["instances"]}
        return len(now.items() - before.items())

    async with Crowd(big) as crowd:
        await crowd.flows()
        plan = await asyncio.to_thread(pdctl, big, "plan", "--file", str(file))
        await asyncio.to_thread(pdctl, big, "apply", plan["id"])
        await until("some to be renewed", lambda: renewed() >= 3)
        await asyncio.to_thread(change, big, "undo")
        await crowd.flows()
    assert crowd.wrong == Counter()
    fleet = big.wait_ready()
    assert not any(one["outdated"] for one in fleet["instances"])
    assert renewed() < len(before), "undo came in the middle"
