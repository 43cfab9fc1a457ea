"""A long day at the front door, shortened: clients that leave, engines that are killed and hang.

The router runs in this process, engines and clients in processes of their own. When the clients are
gone nothing may be left of them: no connection, task, reservation, place in the line or open file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import uvloop

from benchmarks.processes import free_port
from pdctl.adapters.clock import SystemClock
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.ids import InstanceId
from pdctl.domain.keys import digest
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec
from pdctl.gateway.plane import LocalDataPlane
from pdctl.tasks import settle, spawn

ROLES = {"p": Role.PREFILL, "d": Role.DECODE}
NAMES = ("p0", "p1", "d0", "d1", "d2")
STEP_S = 0.1
PAUSES_S = (1.0, 4.0)
"""Between two accidents."""
SETTLE_S = 30.0
"""How long the router may take to be as it was: idle connections to engines last 3 s."""
CLIENTS = ("alice", "bob", "carol")


@dataclass(slots=True)
class State:
    """What a process holds open."""

    tasks: int
    sockets: int
    files: int
    inflight: int = 0
    queued: int = 0
    admitted: int = 0
    """Requests that count against an API key."""


@dataclass(slots=True)
class Report:
    """How it went."""

    seconds: float
    streams: int
    before: State
    after: State
    accidents: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    """As the clients saw them."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """As the router told them."""
    rss_mib: tuple[float, float] = (0.0, 0.0)
    """After a tenth of the time, and at the end."""

    @property
    def clean(self) -> bool:
        """Nothing is left."""
        return self.before == self.after


class Engine:
    """A simulated engine in a process of its own, on a port that it keeps."""

    def __init__(self, name: str) -> None:
        self.name, self.port, self.side = name, free_port(), free_port()
        self.generation = 0
        self.up = False
        self._process: subprocess.Popen[bytes] | None = None

    def _spawn(self) -> None:
        words = [
            sys.executable, "-m", "pdctl.simulated", "--port", str(self.port),
            "--side-channel-port", str(self.side), "--role", ROLES[self.name[0]].value,
            "--served-model-name", "tiny", "--step-base-s", str(STEP_S),
        ]  # fmt: skip
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet)
        self.generation += 1

    async def start(self) -> None:
        """Until it answers."""
        self._spawn()
        while not self.up:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                await writer.wait_closed()
                self.up = True
            except OSError:
                await asyncio.sleep(0.1)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        if self._process is not None:
            self._process.send_signal(number)

    async def kill(self) -> None:
        """At once; also when it is stopped."""
        self.send(signal.SIGKILL)
        self.up = False
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)


class Soak:
    """The router, its engines, and what happens to them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._keys = folder / "keys.toml"
        self._keys.write_text("".join(f'[{one}]\nsha256 = "{digest(one)}"\n' for one in CLIENTS))
        self._rng = random.Random(seed)  # noqa: S311 - accidents
        self._engines = {name: Engine(name) for name in NAMES}
        self._mode, self._seq = Mode.PD, 0
        self.accidents: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.plane = LocalDataPlane("127.0.0.1", 0, clock=SystemClock())

    async def run(self, seconds: float, streams: int) -> Report:
        """All of it."""
        await self.plane.start()
        reader = spawn(self._read(), name="events")
        try:
            await asyncio.gather(*(one.start() for one in self._engines.values()))
            await self._push()
            before = self.state()
            early, answers = await self._day(seconds, streams)
            after = await self._settled(before)
            rss = (early, _rss_mib())
        finally:
            for one in self._engines.values():
                await one.kill()
            await self.plane.stop(0.0)
            await settle(reader)
        return Report(
            seconds, streams, before, after, dict(self.accidents), answers, dict(self.outcomes), rss
        )

    async def _day(self, seconds: float, streams: int) -> tuple[float, dict[str, int]]:
        """Memory after a tenth of it, and what the clients saw."""
        words = [sys.executable, "-m", "benchmarks.soak", "--ask", self.plane.url]
        pipe = asyncio.subprocess.PIPE
        clients = await asyncio.create_subprocess_exec(
            *words, "--streams", str(streams), stdin=pipe, stdout=pipe
        )
        accidents = spawn(self._accidents(), name="accidents")
        try:
            await asyncio.sleep(seconds / 10)
            early = _rss_mib()
            await asyncio.sleep(seconds * 0.9)
        finally:
            await settle(accidents)
            said, _ = await clients.communicate(b"")  # closes their input
        return early, json.loads(said)

    async def _accidents(self) -> None:
        kinds = (self._kill, self._kill, self._hang, self._switch)
        while True:
            await asyncio.sleep(self._rng.uniform(*PAUSES_S))
            await self._rng.choice(kinds)()

    async def _kill(self) -> None:
        one = self._any()
        self.accidents["kill"] += 1
        await one.kill()
        await asyncio.sleep(self._rng.uniform(0.0, 1.0))  # the router finds out by itself
        await self._push()
        await one.start()
        await self._push()

    async def _hang(self) -> None:
        one = self._any()
        self.accidents["hang"] += 1
        one.send(signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(0.1, 2.0))
        one.send(signal.SIGCONT)

    async def _switch(self) -> None:
        self.accidents["mode switch"] += 1
        self._mode = Mode.CHUNKED if self._mode is Mode.PD else Mode.PD
        await self._push()

    def _any(self) -> Engine:
        return self._rng.choice(list(self._engines.values()))

    async def _push(self) -> None:
        self._seq += 1
        up = [one for one in self._engines.values() if one.up]
        targets = tuple(
            Target(
                InstanceId(one.name), one.name[0], ROLES[one.name[0]], "127.0.0.1", one.port,
                one.generation, accepts=True,
            )
            for one in up
        )  # fmt: skip
        ids = [one.id for one in targets]
        pairs = tuple((p, d) for p in ids for d in ids if p[0] == "p" and d[0] == "d")
        limits = RouterSpec(
            max_inflight_per_instance=64, queue_limit=64, queue_timeout_s=5.0,
            first_byte_timeout_s=10.0, stall_timeout_s=10.0, keys_file=str(self._keys),
        )  # fmt: skip
        await self.plane.push(
            RoutingTable(self._seq, self._mode, "tiny", "nixl", 10.0, limits, targets, pairs)
        )

    async def _read(self) -> None:
        async for event in self.plane.events():
            if isinstance(event, RequestRecord):
                self.outcomes[event.outcome.value] += 1

    def state(self) -> State:
        """What is open now."""
        load, files = self.plane.load, _files()
        return State(
            len(asyncio.all_tasks()), sum(one.startswith("socket:") for one in files), len(files),
            sum(load.inflight.values()), load.queued, self.plane.admitted,
        )  # fmt: skip

    async def _settled(self, before: State) -> State:
        """The state once it is as `before`, or after a while all the same."""
        end = time.monotonic() + SETTLE_S
        while (now := self.state()) != before and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return now


def _files() -> list[str]:
    """What the open descriptors of this process are."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            found.append(str(one.readlink()))
    return found


def _rss_mib() -> float:
    return round(psutil.Process().memory_info().rss / 2**20, 1)


# The clients.


async def ask(url: str, streams: int) -> None:
    """So many streams until nobody holds our input open; says what they saw."""
    seen: Counter[str] = Counter()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        every = [spawn(_client(session, n, seen), name=f"client {n}") for n in range(streams)]
        await asyncio.to_thread(sys.stdin.read)
        await settle(*every)
    sys.stdout.write(json.dumps(seen))


async def _client(session: aiohttp.ClientSession, number: int, seen: Counter[str]) -> None:
    rng = random.Random(number)  # noqa: S311 - patience
    key = CLIENTS[number % len(CLIENTS)]
    while True:
        try:
            async with asyncio.timeout(rng.uniform(0.0, 4.0) if rng.random() < 0.2 else 60):
                what = await _request(session, key, rng.randint(4, 40))
        except TimeoutError:
            what = "left"
        except (aiohttp.ClientError, OSError) as error:
            what = f"broken: {type(error).__name__}"
        seen[what] += 1
        if what not in ("whole", "left"):
            await asyncio.sleep(rng.uniform(0.1, 0.5))


async def _request(session: aiohttp.ClientSession, key: str, tokens: int) -> str:
    body: dict[str, Any] = {
        "model": "tiny", "prompt": "the river " * 8, "max_tokens": tokens, "stream": True,
        "ignore_eos": True,
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {key}"}
    async with session.post("/v1/completions", json=body, headers=headers) as answer:
        if answer.status != 200:
            await answer.read()
            return f"status {answer.status}"
        data = await answer.read()
    return "whole" if data.endswith(b"data: [DONE]\n\n") else "told that it broke off"


async def soak(seconds: float, streams: int, seed: int = 0) -> Report:
    """Run it in this loop."""
    with tempfile.TemporaryDirectory() as folder:
        return await Soak(Path(folder), seed).run(seconds, streams)


def main() -> int:
    """Run the soak, or its clients; 1 when something is left."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        uvloop.run(ask(args.ask, args.streams))
        return 0
    sys.stderr.write(f"{args.streams} streams for {args.minutes:g} minutes\n")
    report = uvloop.run(soak(args.minutes * 60, args.streams, args.seed))
    sys.stdout.write(json.dumps({**asdict(report), "clean": report.clean}, indent=1) + "\n")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
