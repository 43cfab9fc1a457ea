"""KV events over ZMQ as vLLM publishes them: PUB for what happens, ROUTER for what was missed.

Messages are (topic, eight bytes of number, msgpack of [time, events, rank]); the ROUTER socket is
asked with the number of the first that is wanted, and number -1 ends its answer (vLLM 0.32,
`vllm/distributed/kv_events.py`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

import msgspec
import orjson
import zmq
import zmq.asyncio

from pdctl.simulated.clock import epoch_seconds
from pdctl.simulated.faults import Faults
from pdctl.tasks import settle, spawn

_END = (-1).to_bytes(8, "big", signed=True)
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class KvEventsConfig:
    """vLLM's `--kv-events-config`."""

    enable_kv_cache_events: bool = False
    publisher: str = "zmq"
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    max_queue_size: int = 100_000
    topic: str = ""


def read_config(text: str) -> KvEventsConfig:
    """What the flag says; nothing is published without it. ValueError for what it cannot be."""
    given = orjson.loads(text) if text else {}
    known = {one.name for one in fields(KvEventsConfig)}
    if not isinstance(given, dict) or not given.keys() <= known:
        raise ValueError(f"kv_events_config must be an object of {', '.join(sorted(known))}")
    return KvEventsConfig(**given)


class BlockListener(Protocol):
    """Told what becomes of an engine's blocks."""

    def stored(
        self, hashes: Sequence[bytes], parent: bytes | None, tokens: Sequence[int], size: int
    ) -> None:
        """Blocks in a row hold `tokens`, `size` each, after those up to `parent`."""
        ...

    def removed(self, hashes: Sequence[bytes]) -> None:
        """Blocks hold this no more."""
        ...

    def cleared(self) -> None:
        """No block holds anything."""
        ...


class Publisher:
    """The publisher of one engine; silent until started."""

    def __init__(self, config: KvEventsConfig, faults: Faults) -> None:
        self.config, self._faults = config, faults
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=config.buffer_steps)
        self._events: list[dict[str, Any]] = []
        self._due = asyncio.Event()
        self._seq = 0
        self.newest_at = 0.0
        """Wall time of the newest message, UTC seconds."""
        self._context: zmq.asyncio.Context | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Bind, when it was told to publish."""
        if not self.config.enable_kv_cache_events:
            return
        self._context = zmq.asyncio.Context()
        pub = self._context.socket(zmq.PUB)
        pub.set_hwm(self.config.hwm)
        pub.bind(self.config.endpoint)
        self._tasks = [spawn(self._publish(pub), name="KV events")]
        if self.config.replay_endpoint:
            router = self._context.socket(zmq.ROUTER)
            router.bind(self.config.replay_endpoint)
            self._tasks.append(spawn(self._answer(router), name="KV events again"))

    async def stop(self) -> None:
        """Publish no more."""
        await settle(*self._tasks)
        self._tasks = []
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def sources(self) -> dict[str, Any]:
        """The answer of /kv_event_sources."""
        return {"0": asdict(self.config)} if self.config.enable_kv_cache_events else {}

    # What its blocks tell.

    def stored(
        self, hashes: Sequence[bytes], parent: bytes | None, tokens: Sequence[int], size: int
    ) -> None:
        """BlockStored."""
        self._add(
            "BlockStored",
            block_hashes=list(hashes), parent_block_hash=parent, token_ids=list(tokens),
            block_size=size, lora_id=None, medium="GPU", lora_name=None, group_idx=0,
        )  # fmt: skip

    def removed(self, hashes: Sequence[bytes]) -> None:
        """BlockRemoved."""
        self._add("BlockRemoved", block_hashes=list(hashes), medium="GPU", group_idx=0)

    def cleared(self) -> None:
        """AllBlocksCleared."""
        self._add("AllBlocksCleared")

    def _add(self, type_: str, **fields_: Any) -> None:
        if self.config.enable_kv_cache_events:
            self._events.append({"type": type_, **fields_})
            self._due.set()

    async def _publish(self, pub: zmq.asyncio.Socket) -> None:
        topic = self.config.topic.encode()
        while True:
            await self._due.wait()
            self._due.clear()
            events, self._events = self._events, []
            self.newest_at = epoch_seconds()
            number, payload = self._seq, _pack([self.newest_at, events, 0])
            self._seq += 1
            self._kept.append((number, payload))
            if self._faults.lose_kv_events:
                self._faults.lose_kv_events -= 1
                continue
            await pub.send_multipart([topic, number.to_bytes(8, "big"), payload])

    async def _answer(self, router: zmq.asyncio.Socket) -> None:
        topic = self.config.topic.encode()
        while True:
            frames = await router.recv_multipart()
            if len(frames) != 3:
                continue
            first = int.from_bytes(frames[2], "big")
            for number, payload in tuple(self._kept):
                if number >= first:
                    again = [frames[0], b"", topic, number.to_bytes(8, "big"), payload]
                    await router.send_multipart(again)
            await router.send_multipart([frames[0], b"", b"", _END, b""])
