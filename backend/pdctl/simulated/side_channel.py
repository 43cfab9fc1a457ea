"""The simulated side channel: how a decode engine reaches the prefill engine that holds its KV.

Engines of one process call each other; across processes one JSON line goes each way over TCP on the
side-channel port. Real engines speak ZMQ and NIXL there; nothing outside this package speaks this.
Verbs: hello, read, heartbeat, done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from pdctl.simulated.faults import Faults
from pdctl.simulated.leases import LeaseBook

_TIMEOUT_S = 5.0
"""Real seconds to wait for an answer; vLLM's handshake waits as long."""
_LOCAL: dict[tuple[str, int], SideChannel] = {}


class PeerError(Exception):
    """The other engine cannot be reached, or does not answer."""


class Peer(Protocol):
    """A prefill engine as seen from a decode engine."""

    async def hello(self) -> str:
        """The engine id of whoever listens there."""
        ...

    async def read(self, request_id: str) -> bytes | None:
        """What the blocks of `request_id` hold now; None when they are no longer held."""
        ...

    async def heartbeat(self, request_ids: Sequence[str]) -> None:
        """Extend the leases of `request_ids`."""
        ...

    async def done(self, request_id: str) -> bool:
        """The blocks may be freed; False when they had been already."""
        ...


class SideChannel:
    """The listening end, on the engine that holds KV."""

    def __init__(self, engine_id: str, leases: LeaseBook, faults: Faults) -> None:
        self._engine_id = engine_id
        self._leases = leases
        self._faults = faults
        self._server: asyncio.Server | None = None
        self._address = ("", 0)

    async def start(self, host: str, port: int) -> int:
        """Listen, and be found by engines of this process; the port that was bound."""
        self._server = await asyncio.start_server(self._serve, host, port)
        self._address = (host, self._server.sockets[0].getsockname()[1])
        _LOCAL[self._address] = self
        return self._address[1]

    async def stop(self) -> None:
        """Stop listening."""
        if _LOCAL.get(self._address) is self:
            del _LOCAL[self._address]
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """What one message gets back."""
        if self._faults.drop_side_channel:
            raise PeerError("side channel dropped")
        match message:
            case {"verb": "hello"}:
                return {"engine_id": self._engine_id, "simulated": True}
            case {"verb": "read", "request_id": request_id}:
                digest = self._leases.digest(request_id)
                return {"holds": digest.hex() if digest else None}
            case {"verb": "heartbeat", "request_ids": request_ids}:
                self._leases.heartbeat(request_ids)
                return {}
            case {"verb": "done", "request_id": request_id}:
                return {"held": self._leases.done(request_id)}
        raise PeerError(f"unknown message {message!r}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, PeerError, orjson.JSONDecodeError):
            line = await reader.readline()
            writer.write(orjson.dumps(self.answer(orjson.loads(line))) + b"\n")
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class _Peer:
    """The asking end: in process when the listener is here, over TCP otherwise."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    async def hello(self) -> str:
        answer = await self._ask({"verb": "hello"})
        return str(answer["engine_id"])

    async def read(self, request_id: str) -> bytes | None:
        holds = (await self._ask({"verb": "read", "request_id": request_id}))["holds"]
        return bytes.fromhex(holds) if holds else None

    async def heartbeat(self, request_ids: Sequence[str]) -> None:
        await self._ask({"verb": "heartbeat", "request_ids": list(request_ids)})

    async def done(self, request_id: str) -> bool:
        return bool((await self._ask({"verb": "done", "request_id": request_id}))["held"])

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        local = _LOCAL.get((self._host, self._port))
        if local is not None:
            return local.answer(message)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._ask_over_tcp(message)
        except (OSError, ValueError, TimeoutError) as error:
            raise PeerError(f"no answer from {self._host}:{self._port}: {error}") from error

    async def _ask_over_tcp(self, message: dict[str, Any]) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(orjson.dumps(message) + b"\n")
            answer: dict[str, Any] = orjson.loads(await reader.readline())
        finally:
            writer.close()
        return answer


def peer(host: str, port: int) -> Peer:
    """The engine whose side channel is at `host`:`port`."""
    return _Peer(host, port)
