"""Connections to engines, byte by byte: where an answer ends, and whether more is asked on it."""

from __future__ import annotations

import asyncio

import pytest
from multidict import CIMultiDict
from tests.fakes.waiting import until
from tests.gateway.conftest import Rogues
from tests.gateway.desk import COMPLETIONS, Desk
from tests.gateway.rogue import Rogue, Seen, completion_events, prefill_then

from pdctl.domain.ids import InstanceId
from pdctl.domain.table import Target
from pdctl.domain.topology import Role
from pdctl.gateway.upstream import Call, Parcel, Reader, Upstream

PLACE = "/v1/files"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"


async def engine_that_says(desk: Desk, rogues: Rogues, *pieces: bytes, end: bool = False) -> Rogue:
    """An engine that answers everything alike; it hangs up afterwards if `end`."""
    engine = await rogues("d0")

    async def say(seen: Seen) -> None:
        await seen.send(*pieces)
        if end:
            seen.writer.close()

    engine.script = say
    await desk.push()
    return engine


async def ask(desk: Desk, method: str = "GET") -> tuple[int, bytes]:
    async with desk.client.request(method, PLACE) as answer:
        return answer.status, await answer.read()


def connections(engine: Rogue) -> int:
    return len({id(one.writer) for one in engine.seen})


@pytest.mark.parametrize(
    ("method", "head", "status"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", 304),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200),
    ],
)
async def test_an_answer_without_a_body_ends_with_its_head(
    desk: Desk, rogues: Rogues, method: str, head: bytes, status: int
) -> None:
    await engine_that_says(desk, rogues, head)
    for _ in range(2):
        assert await ask(desk, method) == (status, b"")


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WHOLE,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2;a=b\r\nwh\r\n3\r\nole\r\n0\r\nX-After: y\r\n\r\n",
    ],
    ids=["a length", "interim answers", "chunks with extensions and trailers"],
)
async def test_any_cut_is_one_answer_and_the_connection_is_used_again(
    desk: Desk, rogues: Rogues, answer: bytes
) -> None:
    pieces = [bytes([one]) for one in answer]
    engine = await engine_that_says(desk, rogues, *pieces)
    for _ in range(2):
        assert await ask(desk) == (200, b"whole")
        await desk.idle()
    assert connections(engine) == 1


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nwhole", True),
        (b"HTTP/1.1 200 OK\r\n\r\nwhole", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nwhole", False),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nwhole", False),
        (WHOLE + WHOLE, False),
        (WHOLE + b"and more", False),
    ],
    ids=["1.0 to the end", "1.1 to the end", "1.0", "close", "a second answer", "rubbish"],
)
async def test_a_connection_of_which_more_cannot_be_believed_is_not_used_again(
    desk: Desk, rogues: Rogues, answer: bytes, end: bool
) -> None:
    engine = await engine_that_says(desk, rogues, answer, end=end)
    for _ in range(2):
        assert await ask(desk) == (200, b"whole")
        await desk.idle()
    assert connections(engine) == 2


async def test_what_stalls_is_cut_and_not_told_as_whole(desk: Desk, rogues: Rogues) -> None:
    """An answer without a length ends with its connection: not if the router closed that."""
    engine = await rogues("d0")

    async def stall(seen: Seen) -> None:
        await seen.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await seen.gone.wait()

    engine.script = stall
    await desk.push(stall_timeout_s=0.2)
    reader, writer = await asyncio.open_connection(*desk.plane.url[7:].split(":"))
    writer.write(f"GET {PLACE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    said = await reader.read()
    writer.close()
    assert b"half" in said
    assert not said.endswith(b"0\r\n\r\n")
    record = await desk.record()
    assert "nothing for 0.2 s" in record.legs[-1].error


async def test_a_kept_connection_that_has_closed_is_no_failure_where_a_repeat_is_none(
    desk: Desk, rogues: Rogues
) -> None:
    engine = await rogues("d0")

    async def only_once(seen: Seen) -> None:
        if sum(one.writer is seen.writer for one in engine.seen) > 1:
            seen.die()
        else:
            await seen.send(WHOLE)

    engine.script = only_once
    await desk.push()
    for _ in range(2):
        assert await ask(desk) == (200, b"whole")
        await desk.idle()
    assert (connections(engine), len(engine.seen)) == (2, 3)


async def test_a_slow_client_gets_every_byte_of_a_long_stream(desk: Desk, rogues: Rogues) -> None:
    """More than all buffers on the way hold: reading from the engine stops and goes on again."""
    prefill, decode = await rogues("p0"), await rogues("d0")
    events = completion_events(*(f"{number:04}" + "x" * 16_000 for number in range(1000)))

    async def flood(seen: Seen) -> None:
        await seen.events(*events)

    prefill.script = decode.script = prefill_then(flood)
    await desk.push()
    body = {"model": "tiny", "prompt": "x", "stream": True}
    async with desk.client.post(COMPLETIONS, json=body) as answer:
        got = [await answer.content.read(1)]
        await until(lambda: desk.plane.load.inflight == {"d0": 1})
        async for piece in answer.content.iter_chunked(8192):
            got.append(piece)
            await asyncio.sleep(0)
    assert b"".join(got) == b"".join(events)
    assert (await desk.record()).completion_tokens == 1000


async def test_an_answer_may_come_before_the_request_was_taken_and_hosts_may_be_ipv6() -> None:
    heads: list[bytes] = []
    ended = asyncio.Semaphore(0)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        while await _more(reader):
            pass
        writer.transport.abort()
        ended.release()

    server = await asyncio.start_server(refuse, "::1", 0, limit=1024)
    port = server.sockets[0].getsockname()[1]
    upstream = Upstream()
    target = Target(InstanceId("d0"), "d", Role.DECODE, "::1", port, 1, accepts=True)
    body = Parcel(bytes(32 * 2**20))  # more than any socket takes at once
    for number in range(2):
        call = Call(target, "POST", PLACE, CIMultiDict(), body, connect_s=5.0, first_byte_s=5.0)
        reply = await upstream.send(call)
        reader = Reader(reply, 5.0)
        assert (reply.status, await reader.rest()) == (413, b"no")
        reader.close(reusable=True)
        await asyncio.wait_for(ended.acquire(), 20)  # the rest of the body is not sent
        assert f"Host: [::1]:{port}\r\n".encode() in heads[number]
    await upstream.close()
    server.close()


async def _more(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await reader.read(1024))
    except ConnectionError:
        return False
