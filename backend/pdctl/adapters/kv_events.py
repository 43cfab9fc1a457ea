"""KV events of engines over ZMQ, as vLLM 0.32 publishes them (`vllm/distributed/kv_events.py`).

A PUB socket sends (topic, seq, msgpack); a ROUTER socket sends again what is asked for by its first
seq, and ends with seq -1. Only blocks in the engine's own GPU (or CPU backend) cache count, and of
models with several KV cache groups those of the first.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from pdctl.domain.errors import EngineError
from pdctl.domain.kv_events import (
    AllCleared,
    BlockEvent,
    BlocksRemoved,
    BlocksStored,
    EventBatch,
    KvSource,
)

REPLY_S = 2.0
"""Seconds between two messages that are sent again; vLLM looks for requests ten times a second."""
WAITING = 100_000
"""Messages that may wait here, as many as vLLM holds back; the loss of more is seen."""
_END = (-1).to_bytes(8, "big", signed=True)
_Hash = int | bytes


class _Stored(msgspec.Struct, tag="BlockStored"):
    block_hashes: list[_Hash]
    parent_block_hash: _Hash | None
    token_ids: list[int]
    block_size: int
    medium: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    locality: str | None = None


class _Removed(msgspec.Struct, tag="BlockRemoved"):
    block_hashes: list[_Hash]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


class _Cleared(msgspec.Struct, tag="AllBlocksCleared"):
    pass


class _Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[_Stored | _Removed | _Cleared]


_decode = msgspec.msgpack.Decoder(_Batch).decode


class ZmqSubscription:
    """The events of one engine."""

    def __init__(self, context: zmq.asyncio.Context, source: KvSource) -> None:
        self._context, self._source = context, source
        self._sub = context.socket(zmq.SUB)
        self._sub.set_hwm(WAITING)
        self._sub.linger = 0
        self._sub.subscribe(source.topic)
        try:
            self._sub.connect(source.endpoint)
        except zmq.ZMQError as error:
            self._sub.close()
            raise _failed(f"its event address cannot be reached: {error}") from error

    async def next(self) -> EventBatch:
        """The next message. EngineError when it cannot be read."""
        try:
            return _read(await self._sub.recv_multipart())
        except zmq.ZMQError as error:
            raise _failed(f"its KV events do not come: {error}") from error

    async def replay(self, since: int) -> list[EventBatch]:
        """All messages from number `since` on that the engine still has. EngineError if silent."""
        if not self._source.replay:
            raise _failed("it sends nothing again: no replay_endpoint")
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        try:
            socket.connect(self._source.replay)
            await socket.send_multipart([b"", since.to_bytes(8, "big")])
            found: list[EventBatch] = []
            while True:
                async with asyncio.timeout(REPLY_S):
                    _, *frames = await socket.recv_multipart()
                if len(frames) == 3 and frames[1] == _END:
                    return found
                found.append(_read(frames))
        except (TimeoutError, zmq.ZMQError, ValueError) as error:
            raise _failed(f"it does not send again what it published: {error!r}") from error
        finally:
            socket.close()

    def close(self) -> None:
        """Hear no more."""
        self._sub.close()


class ZmqFeed:
    """Subscribes to engines; its sockets share one thread of ZMQ's own."""

    def __init__(self) -> None:
        self._context: zmq.asyncio.Context | None = None

    def subscribe(self, source: KvSource) -> ZmqSubscription:
        """Hear one engine from now on. EngineError for an address that is none."""
        if self._context is None:
            self._context = zmq.asyncio.Context()
        return ZmqSubscription(self._context, source)

    def close(self) -> None:
        """Close every socket; the next `subscribe` begins anew."""
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None


def _failed(why: str) -> EngineError:
    return EngineError("kv_events", why)


def _read(frames: list[bytes]) -> EventBatch:
    try:
        _, seq, payload = frames
        batch = _decode(payload)
    except (ValueError, msgspec.MsgspecError) as error:
        raise _failed(f"its KV events cannot be read: {error}") from error
    events = (_event(one) for one in batch.events)
    known = tuple(one for one in events if one is not None)
    return EventBatch(int.from_bytes(seq, "big"), batch.ts, known)


def _event(one: _Stored | _Removed | _Cleared) -> BlockEvent | None:
    """In our words; None for what is not in the engine's own cache."""
    if isinstance(one, _Cleared):
        return AllCleared()
    elsewhere = one.medium not in (None, "GPU") or one.locality == "REMOTE"
    if elsewhere or one.group_idx not in (None, 0):
        return None
    hashes = tuple(one.block_hashes)
    if isinstance(one, _Removed):
        return BlocksRemoved(hashes)
    keys = tuple("" if key is None else repr(tuple(key)) for key in one.extra_keys or ())
    return BlocksStored(hashes, one.parent_block_hash, tuple(one.token_ids), one.block_size, keys)
