"""Clients of all manners: slow, gone at the last word, speaking broken HTTP, asking too much."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Rogues
from tests.gateway.desk import CHAT, COMPLETIONS, RESPONSES, Desk, read_some
from tests.gateway.rogue import HEAD, Seen, completion_events, event

from pdctl.domain.handoff import Outcome
from pdctl.domain.topology import Mode
from pdctl.gateway import front

BODY: dict[str, Any] = {"model": "tiny", "prompt": "hello"}
RAW = b'{"model":"tiny","prompt":"x"}'
POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(RAW)


class Wire:
    """A client that says exactly what it is told to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, desk: Desk, *, limit: int = 2**16) -> Wire:
        port = int(desk.plane.url.rsplit(":", 1)[1])
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))

    async def ask(self, data: bytes) -> bytes:
        """Everything that comes back until the router hangs up."""
        self.writer.write(data)
        try:
            async with asyncio.timeout(20):
                return await self.reader.read()
        finally:
            await self.close()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_takes_nothing_is_left(
    desk: Desk, rogues: Rogues, stream: bool
) -> None:
    decode = await rogues("d0")
    await desk.push(Mode.CHUNKED, slow_client_timeout_s=0.3)
    big = "x" * 500_000

    async def flood(seen: Seen) -> None:
        if not stream:
            await seen.json({"choices": [{"text": big * 40, "finish_reason": "stop"}]})
            return
        await seen.send(HEAD)
        while not seen.gone.is_set():
            await seen.chunks(event({"choices": [{"text": big, "finish_reason": None}]}))

    decode.script = flood
    wire = await Wire.open(desk, limit=1024)
    raw = b'{"model":"tiny","prompt":"x","stream":%s}' % (b"true" if stream else b"false")
    wire.writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(raw) + raw)
    record = await desk.record()
    assert (record.outcome, record.status) == (Outcome.CLIENT_GONE, 499)
    assert record.error == "client took nothing for 0.3 s while answering"
    await desk.idle()
    await until(lambda: not stream or decode.seen[0].writer.is_closing())
    wire.writer.transport.abort()


async def test_a_body_that_stops_coming_is_408(desk: Desk, rogues: Rogues) -> None:
    engine = await rogues("d0")
    await desk.push(slow_client_timeout_s=0.2)
    for head in (b"Content-Length: 99\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
        said = await (await Wire.open(desk)).ask(POST + head)
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b'"RequestTimeoutError"' in said
        assert b"Connection: close" in said
    assert not engine.seen
    assert (await desk.record(2)).outcome is Outcome.REJECTED


async def test_a_chunked_body_arrives_whole(desk: Desk, rogues: Rogues) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    head = b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in RAW) + b"0\r\n\r\n"
    said = await (await Wire.open(desk)).ask(POST + head + chunks)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert engine.seen[0].raw == RAW
    assert "transfer-encoding" not in engine.seen[0].headers


async def test_a_client_that_hangs_up_at_done_was_served(desk: Desk, rogues: Rogues) -> None:
    """Many clients close at [DONE]; an engine may take its time to end the HTTP answer."""
    decode = await rogues("d0")
    await desk.push(Mode.CHUNKED)

    recorded = asyncio.Event()

    async def linger(seen: Seen) -> None:
        await seen.events(*completion_events("Hello"), end=False)
        await recorded.wait()
        await seen.send(b"0\r\n\r\n")

    decode.script = linger
    async with aiohttp.ClientSession(desk.plane.url) as session:
        answer = await session.post(COMPLETIONS, json={**BODY, "stream": True})
        await read_some(answer, b"[DONE]\n\n")
        answer.close()
    record = await desk.record()
    recorded.set()
    assert (record.outcome, record.status) == (Outcome.OK, 200)
    await desk.idle()


async def test_the_connection_of_a_lingering_answer_is_used_again(
    desk: Desk, rogues: Rogues
) -> None:
    decode = await rogues("d0")
    await desk.push(Mode.CHUNKED)

    async def linger(seen: Seen) -> None:
        await seen.events(*completion_events("Hello"), end=False)
        await asyncio.sleep(0.05)
        await seen.send(b"0\r\n\r\n")

    decode.script = linger
    for _ in range(50):  # it is put back once the engine has ended the answer, a moment later
        await desk.raw(COMPLETIONS, {**BODY, "stream": True})
        if len({id(seen.writer) for seen in decode.seen}) < len(decode.seen):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("no connection was ever used again")


CODED = POST + b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(RAW), RAW)
BROKEN = {
    "length-and-chunks": POST + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks-and-length": CODED + LENGTH + b"\r\n" + CHUNKS,
    "length-twice": POST + LENGTH + LENGTH + b"\r\n" + RAW,
    "list-of-lengths": POST + b"Content-Length: %d, %d\r\n\r\n" % (len(RAW), len(RAW)) + RAW,
    "signed-length": POST + b"Content-Length: +%d\r\n\r\n" % len(RAW) + RAW,
    "length-in-a-trailer": CODED + b"\r\n" + CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n",
    "coding-twice": CODED + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "chunked-not-last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "space-before-colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
    "control-in-coding": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKS,
    "folded-coding": POST + LENGTH + b"X-A: a\r\n Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "bare-line-feeds": (POST + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + RAW,
    "one-bare-line-feed": POST + b"X-A: a\nX-B: b\r\n" + LENGTH + b"\r\n" + RAW,
    "bare-carriage-return": POST + b"X-A: a\rX-B: b\r\n" + LENGTH + b"\r\n" + RAW,
    "line-feeds-in-chunks": CODED + b"\r\n" + CHUNKS.replace(b"\r\n", b"\n"),
    "line-feed-in-extension": CODED + b"\r\n" + CHUNKS.replace(b"\r\n", b";a\n", 1),
    "chunk-size-of-c": CODED + b"\r\n0x" + CHUNKS,
    "negative-chunk": CODED + b"\r\n-1" + CHUNKS,
    "endless-chunk": CODED + b"\r\n" + b"f" * 17 + CHUNKS,
    "two-hosts": POST + b"Host: y\r\n" + LENGTH + b"\r\n" + RAW,
    "nul-in-a-header": POST + b"X-A: a\0b\r\n" + LENGTH + b"\r\n" + RAW,
    "too-many-headers": POST + b"".join(b"X-%d: a\r\n" % n for n in range(3000)) + LENGTH + b"\r\n",
    "two-lengths": POST + LENGTH + b"Content-Length: 3\r\n\r\n" + RAW,
    "odd-coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + RAW,
    "folded-header": POST + LENGTH + b"X-A: a\r\n b\r\n\r\n" + RAW,
    "two-types": POST + LENGTH + b"Content-Type: text/plain\r\n\r\n" + RAW,
    "raw-path": POST.replace(b"/v1/", b"/v1/\xff") + LENGTH + b"\r\n" + RAW,
    "huge-header": POST + LENGTH + b"X-A: " + b"a" * 9000 + b"\r\n\r\n" + RAW,
    "no-host": POST.replace(b"Host: x\r\n", b"") + LENGTH + b"\r\n" + RAW,
    "no-http": b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_http_reaches_no_engine_and_no_log(
    desk: Desk, rogues: Rogues, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    with caplog.at_level(logging.INFO):
        said = await (await Wire.open(desk)).ask(BROKEN[name])
    assert said.split(b" ")[1] == b"400"
    assert not engine.seen
    assert not caplog.records


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
        CODED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n" + CHUNKS,
    ],
    ids=["coding", "version"],
)
async def test_a_body_that_could_end_elsewhere_is_501(
    desk: Desk, rogues: Rogues, sent: bytes
) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    assert (await (await Wire.open(desk)).ask(sent)).split(b" ")[1] == b"501"
    assert not engine.seen


async def test_extensions_of_chunks_end_here(desk: Desk, rogues: Rogues) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    head = CODED + b"Connection: close\r\n\r\n"
    said = await (await Wire.open(desk)).ask(head + CHUNKS.replace(b"\r\n", b';a="b"\r\n', 1))
    assert said.startswith(b"HTTP/1.1 200 ")
    assert engine.seen[0].raw == RAW
    assert engine.seen[0].headers["content-length"] == str(len(RAW))


async def test_a_body_that_drips_is_408_however_steady(
    desk: Desk, rogues: Rogues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "SLOWEST", 1000)
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED, slow_client_timeout_s=0.4)
    wire = await Wire.open(desk)
    wire.writer.write(POST + b"Content-Length: 100000\r\n\r\n")
    asking = asyncio.ensure_future(wire.ask(b""))
    async with asyncio.timeout(20):
        while not asking.done():
            wire.writer.write(b" ")
            await asyncio.sleep(0.02)
    said = await asking
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"comes too slowly: 1000 bytes a second" in said
    assert not engine.seen


async def test_an_old_client_is_not_told_to_go_on(desk: Desk, rogues: Rogues) -> None:
    await rogues("d0")
    await desk.push(Mode.CHUNKED)
    head = POST.replace(b"HTTP/1.1", b"HTTP/1.0") + LENGTH + b"Expect: 100-continue\r\n\r\n"
    said = await (await Wire.open(desk)).ask(head + RAW)
    assert said.startswith(b"HTTP/1.0 200 ")


async def test_a_large_body_is_nothing_special(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push()
    raw = RAW.replace(b'"x"', b'"%s"' % (b"x" * 3_000_000))
    head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(raw)
    assert (await (await Wire.open(desk)).ask(head + raw)).startswith(b"HTTP/1.1 200 ")
    assert len(prefill.seen[0].raw) > 3_000_000
    assert decode.seen[0].body["prompt"] == "x" * 3_000_000


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT, RESPONSES])
@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params"])
async def test_a_client_cannot_say_where_engines_connect_to(
    desk: Desk, rogues: Rogues, endpoint: str, name: str
) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    body = {**BODY, "input": "x", "messages": [{"role": "user", "content": "x"}]}
    params = {"do_remote_prefill": True, "remote_host": "10.0.0.1", "remote_port": 22}
    status, said = await desk.post(endpoint, {**body, name: params})
    assert (status, said["error"]["param"]) == (400, name)
    assert not engine.seen
    assert (await desk.post(endpoint, {**body, name: None}))[0] == 200


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("http://127.0.0.1:1/v1/x?a=1", "/v1/x?a=1"),
        ("//127.0.0.1:1/v1/x", "/v1/x"),
        ("/v1/x?to=http://a//b", "/v1/x?to=http://a//b"),
        ("/v1//x", "/v1//x"),
        ("http://[broken/x", "/"),
    ],
)
@pytest.mark.parametrize("name", ["Location", "Content-Location"])
async def test_no_redirect_names_an_engine(
    desk: Desk, rogues: Rogues, given: str, told: str, name: str
) -> None:
    engine = await rogues("d0")

    async def redirect(seen: Seen) -> None:
        await seen.json({}, 307, **{name.replace("-", "_"): given})

    engine.script = redirect
    await desk.push()
    async with desk.client.get("/v1/files", allow_redirects=False) as answer:
        assert (answer.status, answer.headers[name]) == (307, told)


async def test_a_model_with_a_slash_is_found_by_its_encoded_name(desk: Desk) -> None:
    await desk.push()
    async with desk.client.get("/v1/models/tin%79") as answer:
        assert (answer.status, (await answer.json())["id"]) == (200, "tiny")
