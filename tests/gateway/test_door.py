"""Connections: silent ones end, there are only so many, and broken HTTP is answered in JSON."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.gateway.desk import Desk

from pdctl.gateway import door
from pdctl.gateway.door import Door

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(_: web.BaseRequest) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def serving(*, most: int = 100, idle_s: float = 60.0) -> AsyncIterator[int]:
    """A door on a port."""
    runner = web.ServerRunner(Door(hello, most=most, idle_s=idle_s), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def rest(streams: Streams) -> bytes:
    """What comes until the other side hangs up."""
    async with asyncio.timeout(20):
        said = await streams[0].read()
    streams[1].close()
    await streams[1].wait_closed()
    return said


@pytest.mark.parametrize("said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
@pytest.mark.parametrize("first", [b"", GET])
async def test_who_asks_for_nothing_is_dropped(said: bytes, first: bytes) -> None:
    async with serving(idle_s=0.2) as port:
        streams = await asyncio.open_connection("127.0.0.1", port)
        streams[1].write(first + said)
        heard = await rest(streams)
    assert heard.startswith(b"HTTP/1.1 200 ") if first else not heard


async def test_a_header_that_comes_byte_by_byte_does_not_hold_a_connection() -> None:
    async with serving(idle_s=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            while not reader.at_eof():
                writer.write(b"G")
                try:
                    async with asyncio.timeout(0.05):
                        await reader.read()
                except TimeoutError:
                    continue
        assert reader.at_eof()
        writer.close()


async def test_no_more_clients_than_there_is_room_for() -> None:
    async with serving(most=2) as port:
        open_ = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in open_:
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        said = await rest(await asyncio.open_connection("127.0.0.1", port))
        head, _, body = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in head
        assert json.loads(body)["error"]["type"] == "ServiceUnavailableError"
        open_[0][1].close()
        await open_[0][1].wait_closed()
        async with asyncio.timeout(20):
            while True:
                streams = await asyncio.open_connection("127.0.0.1", port)
                streams[1].write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                if (await rest(streams)).startswith(b"HTTP/1.1 200 "):
                    break
                await asyncio.sleep(0.02)
        open_[1][1].close()


def test_there_is_room_below_the_limit_on_open_files() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft == resource.RLIM_INFINITY or 2 * door.room() + door.RESERVED <= max(soft, 288)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 9000 + b"\r\n\r\n",
    ],
)
async def test_broken_http_is_told_so_in_json(desk: Desk, sent: bytes) -> None:
    port = int(desk.plane.url.rsplit(":", 1)[1])
    streams = await asyncio.open_connection("127.0.0.1", port)
    streams[1].write(sent)
    head, _, body = (await rest(streams)).partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"400"
    assert b"Server: pdctl" in head
    assert b"X-Request-Id: " in head
    assert b"aiohttp" not in head + body
    assert json.loads(body)["error"]["message"].startswith("This is not valid HTTP: ")
