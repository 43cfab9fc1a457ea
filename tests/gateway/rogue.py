"""An engine that misbehaves byte by byte: it sends exactly what its script says, cut anywhere.

The simulated engine has vLLM's manners; this one has none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

PARAMS: dict[str, Any] = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "rogue",
    "remote_request_id": "cmpl-x-0-00000000",
    "remote_host": "127.0.0.1",
    "remote_port": 5600,
    "tp_size": 1,
    "remote_num_tokens": 7,
    "unknown_to_us": {"kept": [1, None]},
}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(eq=False)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """The other side closed the connection."""

    @property
    def body(self) -> dict[str, Any]:
        """The body parsed."""
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed

    async def send(self, *pieces: bytes) -> None:
        """Write each piece by itself."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def json(self, body: Any, status: int = 200, **headers: str) -> None:
        """Answer with a whole JSON body."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""])
        await self.send(head.encode() + data)

    async def events(self, *pieces: bytes, end: bool = True) -> None:
        """Answer with a stream, one HTTP chunk per piece."""
        await self.send(HEAD)
        await self.chunks(*pieces)
        if end:
            await self.send(b"0\r\n\r\n")

    async def chunks(self, *pieces: bytes) -> None:
        """More HTTP chunks."""
        await self.send(*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece))

    def die(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


Script = Callable[[Seen], Awaitable[None]]


class Rogue:
    """Listens, notes what comes, and does what `script` says."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.script: Script = prefill_then(whole_text)
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        """Listen on the loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is None:
            return
        self._server.close()
        for one in self.seen:
            one.writer.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (seen := await _read(reader, writer)) is not None:
                self.seen.append(seen)
                await self._play(seen, reader)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _play(self, seen: Seen, reader: asyncio.StreamReader) -> None:
        """Run the script while watching whether the other side leaves."""
        script = asyncio.ensure_future(self.script(seen))
        watch = asyncio.ensure_future(_wait_for_end(reader))
        try:
            await asyncio.wait({script, watch}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                seen.gone.set()
            if script.done():
                script.result()
        finally:
            script.cancel()
            watch.cancel()
            await asyncio.gather(script, watch, return_exceptions=True)


async def _wait_for_end(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof():  # noqa: ASYNC110 - StreamReader has no event for it
        await asyncio.sleep(0.01)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, path, headers, raw, writer)


def prefill_then(decode: Script, params: Any = PARAMS) -> Script:
    """Answer prefill legs with `params`, everything else by `decode`."""

    async def play(seen: Seen) -> None:
        asks = seen.body.get("kv_transfer_params") if seen.raw[:1] == b"{" else None
        if asks and asks.get("do_remote_decode"):
            await seen.json(
                {
                    "id": "cmpl-x",
                    "choices": [{"text": "x", "finish_reason": "length"}],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 1},
                    "kv_transfer_params": params,
                }
            )
        else:
            await decode(seen)

    return play


async def whole_text(seen: Seen) -> None:
    """A whole completion, or a short stream of one."""
    if seen.raw and seen.body.get("stream"):
        await seen.events(*completion_events("Hello", " world"))
    else:
        choice = {"index": 0, "text": "Hello world", "finish_reason": "stop"}
        await seen.json({"id": "cmpl-x", "object": "text_completion", "choices": [choice]})


async def hang(seen: Seen) -> None:
    """Never answer."""
    await asyncio.Event().wait()


def event(data: Any) -> bytes:
    """One SSE event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def completion_events(*texts: str, finish: str | None = "stop", done: bool = True) -> list[bytes]:
    """The events of a streamed completion."""

    def chunk(text: str, reason: str | None) -> bytes:
        choice = {"index": 0, "text": text, "finish_reason": reason}
        return event({"id": "cmpl-x", "object": "text_completion", "choices": [choice]})

    last = len(texts) - 1
    out = [chunk(text, finish if i == last else None) for i, text in enumerate(texts)]
    return [*out, b"data: [DONE]\n\n"] if done else out
