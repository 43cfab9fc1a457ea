"""The load of the router benchmark: closed loops of clients that read as little as they can."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

PATH = "/v1/completions"
BODY: dict[str, Any] = {
    "model": "tiny", "prompt": "the river " * 8, "max_tokens": 16, "stream": True,
}  # fmt: skip
RAW = json.dumps(BODY).encode()
PREFILL = json.dumps(
    {**BODY, "stream": False, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
).encode()
CHUNK = b"data: {"
"""How an event with a token begins; `[DONE]` does not."""


@dataclass(slots=True)
class Sample:
    """One request, milliseconds."""

    begun: float
    ttft: float = 0.0
    e2e: float = 0.0
    chunks: int = 0
    gaps: list[float] = field(default_factory=list)
    """Between chunks as they are read; chunks of one read have none between them."""

    def read(self, chunks: int, now: float, last: float) -> None:
        """So many chunks were read now; the ones before at `last`."""
        if not self.chunks:
            self.ttft = (now - self.begun) * 1000
        else:
            self.gaps.append((now - last) * 1000)
        self.gaps += [0.0] * (chunks - 1)
        self.chunks += chunks


class Connection:
    """A keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, body: bytes, begun: float) -> tuple[Sample, bytes]:
        """One request; the time counts from `begun`."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        data, sample, last, seen = b"", Sample(begun), begun, 0
        while not _ended(data):
            piece = await self._reader.read(65536)
            if not piece:
                raise ConnectionError(data[-200:])
            data += piece
            if (count := data.count(CHUNK)) > seen:
                now = time.perf_counter()
                sample.read(count - seen, now, last)
                seen, last = count, now
        sample.e2e = (time.perf_counter() - begun) * 1000
        if b" 200 " not in data[:20]:
            raise ConnectionError(data[:300])
        return sample, data

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()


def _ended(data: bytes) -> bool:
    if data.endswith(b"0\r\n\r\n"):
        return True
    head, found, body = data.partition(b"\r\n\r\n")
    if not found or b"content-length: " not in head.lower():
        return False
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return len(body) >= length


Ask = Callable[[], Awaitable[Sample]]
Make = Callable[[], tuple[Ask, Callable[[], None]]]


def through(port: int) -> Make:
    """A client of a router."""

    def make() -> tuple[Ask, Callable[[], None]]:
        connection = Connection(port)

        async def ask() -> Sample:
            return (await connection.ask(RAW, time.perf_counter()))[0]

        return ask, connection.close

    return make


def direct(prefill: int, decode: int) -> Make:
    """A client that does both legs itself."""

    def make() -> tuple[Ask, Callable[[], None]]:
        first, second = Connection(prefill), Connection(decode)

        async def ask() -> Sample:
            begun = time.perf_counter()
            _, reply = await first.ask(PREFILL, begun)
            params = json.loads(reply.partition(b"\r\n\r\n")[2])["kv_transfer_params"]
            body = json.dumps({**BODY, "kv_transfer_params": params}).encode()
            return (await second.ask(body, begun))[0]

        def close() -> None:
            first.close()
            second.close()

        return ask, close

    return make


class Process(Protocol):
    """What is in between."""

    def cpu_s(self) -> float:
        """CPU seconds it has used."""

    def rss_mib(self) -> float:
        """Memory it holds."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to get an answer."""

    make: Make
    child: Process | None = None


async def measure(way: Way, clients: int, seconds: float) -> dict[str, float]:
    """A closed loop of `clients`, after one request of each that does not count."""
    samples: list[Sample] = []
    asks = [way.make() for _ in range(clients)]
    await asyncio.gather(*(ask() for ask, _ in asks))
    begun, cpu = time.perf_counter(), way.child.cpu_s() if way.child else 0.0
    end = begun + seconds

    async def client(ask: Ask, close: Callable[[], None]) -> None:
        samples.append(await ask())
        while time.perf_counter() < end:
            samples.append(await ask())
        close()

    await asyncio.gather(*(client(*one) for one in asks))
    took = time.perf_counter() - begun
    used = (way.child.cpu_s() - cpu) if way.child else 0.0
    chunks = sum(one.chunks for one in samples)
    ttft = [one.ttft for one in samples]
    gaps = [gap for one in samples for gap in one.gaps]
    return {
        "ttft_p50_ms": statistics.median(ttft), "ttft_p99_ms": _high(ttft),
        "itl_p50_ms": statistics.median(gaps), "itl_p99_ms": _high(gaps),
        "e2e_p50_ms": statistics.median(one.e2e for one in samples),
        "requests_per_s": len(samples) / took, "chunks_per_s": chunks / took,
        "cpu_ms_per_request": used * 1000 / len(samples),
        "cpu_s_per_1000_chunks": used * 1000 / chunks,
        "rss_mib": way.child.rss_mib() if way.child else 0.0,
    }  # fmt: skip


def _high(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]
