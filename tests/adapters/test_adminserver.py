"""The admin port: whose it is is settled when it is asked for, not when it is first served."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import trustme
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from pdctl.adapters import adminserver
from pdctl.adapters.adminserver import AdminServer, Wire, listen
from pdctl.client.admin import AdminClient
from pdctl.client.errors import Unreachable
from pdctl.domain.errors import OperatorError


def test_a_port_has_one_owner_from_the_start() -> None:
    with listen("127.0.0.1", 0, what="The admin API", setting="--admin-port") as first:
        port = first.getsockname()[1]
        with pytest.raises(OperatorError, match="--admin-port"):
            listen("127.0.0.1", port, what="The admin API", setting="--admin-port")


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """An admin server that is short of patience and of room."""
    monkeypatch.setattr(adminserver, "REQUEST_S", 0.3)
    monkeypatch.setattr(adminserver, "MOST", 4)
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request) -> str:
        return (await request.body()).decode()

    @app.get("/slow")
    async def slow() -> StreamingResponse:
        async def pieces() -> AsyncIterator[str]:
            for _ in range(8):
                await asyncio.sleep(0.1)
                yield "x"

        return StreamingResponse(pieces())

    sock = listen("127.0.0.1", 0, what="The admin API", setting="--admin-port")
    server = AdminServer(app, sock)
    running = asyncio.ensure_future(server.run())
    yield sock.getsockname()[1]
    server.stop()
    await running


async def answer(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """What comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(pause_s)
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD, HEAD + b"\r\nh"])
async def test_a_request_that_does_not_end_is_not_waited_for(port: int, sent: bytes) -> None:
    began = time.monotonic()
    assert b"200" not in await answer(port, sent)
    assert time.monotonic() - began < 5


async def test_dripping_bytes_buys_no_time(port: int) -> None:
    drops = [HEAD[n : n + 1] for n in range(40)]
    began = time.monotonic()
    assert b"200" not in await answer(port, *drops, pause_s=0.02)
    assert time.monotonic() - began < 5


async def test_requests_in_time_and_long_answers_are_left_alone(port: int) -> None:
    assert (await answer(port, HEAD, b"\r\n", b"hi", pause_s=0.05)).endswith(b'"hi"')
    asked = b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert (await answer(port, asked)).count(b"x\r\n") == 8


async def test_more_connections_than_there_is_room_for_are_turned_away(port: int) -> None:
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    assert await answer(port, HEAD + b"\r\nhi") == b""
    for _, writer in held:
        writer.close()
    deadline = time.monotonic() + 10
    while not (await answer(port, HEAD + b"\r\nhi")).endswith(b'"hi"'):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@asynccontextmanager
async def told(wire: Wire) -> AsyncIterator[str]:
    """A server that says by which scheme and from where it was asked; its address."""
    app = FastAPI()

    @app.get("/")
    async def say(request: Request) -> list[str]:
        return [request.url.scheme, request.client.host if request.client else ""]

    sock = listen("127.0.0.1", 0, what="The admin API", setting="--admin-port")
    server = AdminServer(app, sock, wire)
    running = asyncio.ensure_future(server.run())
    try:
        yield f"{'https' if wire.cert else 'http'}://127.0.0.1:{sock.getsockname()[1]}/"
    finally:
        server.stop()
        await running


async def test_with_a_certificate_it_speaks_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    one = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for blob in one.cert_chain_pems:
        blob.write_to_path(cert, append=True)
    one.private_key_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with told(Wire(str(cert), str(key))) as url:
        async with httpx2.AsyncClient(verify=trusting) as client:
            assert (await client.get(url)).json()[0] == "https"
        async with AdminClient(url) as admin:
            with pytest.raises(Unreachable, match=r"does not trust\. SSL_CERT_FILE="):
                await admin.fleet()


@pytest.mark.parametrize(
    ("proxies", "seen"),
    [
        ("", ["http", "127.0.0.1"]),
        ("192.0.2.1", ["http", "127.0.0.1"]),
        ("127.0.0.1", ["https", "198.51.100.7"]),
    ],
)
async def test_only_a_trusted_proxy_speaks_for_others(proxies: str, seen: list[str]) -> None:
    headers = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}
    async with told(Wire(proxies=proxies)) as url, httpx2.AsyncClient() as client:
        assert (await client.get(url, headers=headers)).json() == seen
