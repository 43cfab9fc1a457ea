"""Everything else of an engine's public surface passes through, and nothing more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import COMPLETIONS, Desk
from tests.gateway.rogue import Seen, hang
from yarl import URL

from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode
from pdctl.gateway.upstream import KEEP_ALIVE_S

USER = [{"role": "user", "content": "x"}]


async def test_method_query_body_and_headers_pass(desk: Desk, rogues: Rogues) -> None:
    await rogues("p0")
    engine = await rogues("d0")

    async def echo(seen: Seen) -> None:
        await seen.json(b'{"odd":   "bytes"}', 201, X_Engine="kept", Connection="keep-alive")

    engine.script = echo
    await desk.push()
    headers = {
        "Content-Type": "text/x-odd",
        "Authorization": "Bearer secret",
        "traceparent": "00-aa-bb-01",
        "X-Session-ID": "s",
        "X-Vllm-Priority": "3",
        "Connection": "X-Hop, keep-alive",
        "X-Hop": "1",
        "X-Request-Id": "abc",
    }
    url = "/v1/embeddings?a=%2Fb&c=1"
    async with desk.client.put(URL(url, encoded=True), data=b"\x00raw", headers=headers) as answer:
        assert (answer.status, await answer.read()) == (201, b'{"odd":   "bytes"}')
        assert answer.headers["X-Engine"] == "kept"
        assert answer.headers["X-Request-Id"] == "abc"
    [seen] = engine.seen
    assert (seen.method, seen.path, seen.raw) == ("PUT", url, b"\x00raw")
    for name in ("Content-Type", "Authorization", "traceparent", "X-Session-ID", "X-Vllm-Priority"):
        assert seen.headers[name.lower()] == headers[name]
    assert "x-hop" not in seen.headers
    assert seen.headers["host"].endswith(str(engine.port))
    record = await desk.record()
    assert (record.path, record.path_reason) == (Path.AGGREGATED, "endpoint")
    assert (record.outcome, record.status, record.legs[0].instance) == (Outcome.OK, 201, "d0")


async def test_tokenize_reaches_an_engine(desk: Desk, engines: Engines) -> None:
    await engines("d0")
    await desk.push(Mode.CHUNKED)
    status, body = await desk.post("/tokenize", {"model": "tiny", "prompt": "a river"})
    assert status == 200
    assert body["count"] == len(body["tokens"])


async def test_redirects_do_not_name_the_engine(desk: Desk, rogues: Rogues) -> None:
    engine = await rogues("d0")

    async def redirect(seen: Seen) -> None:
        await seen.json({}, 307, Location=f"http://127.0.0.1:{engine.port}/v1/files/?x=1")

    engine.script = redirect
    await desk.push()
    async with desk.client.get("/v1/files", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (307, "/v1/files/?x=1")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/metrics", "/sleep", "/collective_rpc", "/server_info", "/docs", "/v1",
        "/v1/../sleep", "/v1/%2e%2e/sleep", "/v1/..%2fsleep", "/v1//sleep", "/v1/./sleep",
        "/V1/files", "/tokenize/x",
    ],
)  # fmt: skip
async def test_nothing_else_reaches_an_engine(desk: Desk, rogues: Rogues, path: str) -> None:
    engine = await rogues("d0")
    await desk.push()
    reader = await _raw(desk, f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert b" 404 " in reader.split(b"\r\n")[0]
    assert b'"NotFoundError"' in reader
    assert not engine.seen


async def _raw(desk: Desk, request: str) -> bytes:
    port = int(desk.plane.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode().replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n"))
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    return data


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(
    desk: Desk, rogues: Rogues
) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    body = {"model": "tiny", "prompt": "x"}
    async with desk.client.post(COMPLETIONS, json=body, expect100=True) as answer:
        assert answer.status == 200
    assert "expect" not in engine.seen[0].headers


async def test_what_would_change_one_engine_only_is_refused(desk: Desk, rogues: Rogues) -> None:
    engine = await rogues("d0")
    await desk.push()
    status, body = await desk.post("/v1/load_lora_adapter", {})
    assert (status, body["error"]["type"]) == (501, "NotImplementedError")
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    async with desk.client.get("/v1/realtime", headers=headers) as answer:
        assert answer.status == 501
    assert not engine.seen


async def test_a_request_with_effects_is_not_sent_twice(desk: Desk, rogues: Rogues) -> None:
    first, second = await rogues("d0"), await rogues("d1")

    async def die(seen: Seen) -> None:
        seen.die()

    first.script = second.script = die
    await desk.push()
    status, body = await desk.post("/v1/files", {})
    assert (status, body["error"]["code"]) == (502, 502)
    assert len(first.seen) + len(second.seen) == 1


async def test_models_and_health_need_no_engine(desk: Desk, rogues: Rogues) -> None:
    async with desk.client.get("/health") as answer:
        assert answer.status == 503
    await desk.push()
    async with desk.client.get("/v1/models") as answer:
        assert (answer.status, (await answer.json())["data"][0]["id"]) == (200, "tiny")
    async with desk.client.get("/health") as answer:
        assert answer.status == 503
    engine = await rogues("d0")
    engine.script = hang
    await desk.push()
    async with desk.client.get("/health") as answer:
        assert answer.status == 200
    assert not engine.seen
    assert not desk.records


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-123", True), ("a" * 128, True), ("a" * 129, False), ("sp ace", False), ("", False)],
)
async def test_request_ids(desk: Desk, rogues: Rogues, given: str, kept: bool) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    body = {"model": "tiny", "prompt": "x"}
    async with desk.client.post(COMPLETIONS, json=body, headers={"X-Request-Id": given}) as answer:
        id_ = answer.headers["X-Request-Id"]
    assert (id_ == given) is kept
    assert engine.seen[0].headers["x-request-id"] == id_ == (await desk.record()).id


@pytest.mark.parametrize(("ranks", "kept"), [(0, "3"), (4, "3"), (2, None)])
async def test_a_rank_is_of_who_answers(
    desk: Desk, rogues: Rogues, ranks: int, kept: str | None
) -> None:
    p0, d0 = await rogues("p0"), await rogues("d0")
    desk.ranks = {"p0": ranks, "d0": 4}
    await desk.push()
    status, _ = await desk.complete(headers={"X-data-parallel-rank": "3"})
    assert status == 200
    assert p0.seen[0].headers.get("x-data-parallel-rank") == kept
    assert d0.seen[0].headers["x-data-parallel-rank"] == "3"


async def test_both_legs_belong_to_the_clients_trace(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push()
    trace = {
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate": "a=1,b=2",
        "X-Request-Id": "mine",
    }
    body = {"model": "tiny", "prompt": "x"}
    async with desk.client.post(COMPLETIONS, json=body, headers=trace) as answer:
        assert (answer.status, answer.headers["X-Request-Id"]) == (200, "mine")
    for leg in (prefill.seen[0], decode.seen[0]):
        assert {name: leg.headers[name.lower()] for name in trace} == trace


def test_idle_connections_end_before_vllm_ends_them() -> None:
    assert KEEP_ALIVE_S < 5.0


PINS = {"do_remote_decode": True}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"kv_transfer_params": PINS}),
        ("/v1/messages", {"ec_transfer_params": PINS}),
        ("/v1/chat/completions/batch", {"kv_transfer_params": PINS}),
        ("/v1/chat/completions/batch", {"vllm_xargs": {"kv_transfer_params": PINS}}),
        (
            "/v1/inference/generate",
            {"sampling_params": {"extra_args": {"kv_transfer_params": PINS}}},
        ),
        ("/invocations", {"kv_transfer_params": PINS}),
        ("/invocations", {"extra_body": {"kv_transfer_params": PINS}}),
        ("/v1/completions/", {"kv_transfer_params": PINS}),
        ("/v1/chat/%63ompletions", {"messages": USER, "kv_transfer_params": PINS}),
        ("/%76%31/completions", {"prompt": "x", "kv_transfer_params": PINS}),
        ("/v1/chat%2Fcompletions?a=1", {"messages": USER, "kv_transfer_params": PINS}),
        ("http://x/v1/completions", {"prompt": "x", "kv_transfer_params": PINS}),
    ],
)
@pytest.mark.parametrize(
    "manner",
    [
        ("application/json", "ascii"),
        ("application/json", "utf-16"),
        ("application/x+json", "utf-8-sig"),
        ("text/plain", "ascii"),
        ("", "utf-16-be"),
    ],
)
async def test_no_path_takes_transfer_params_of_a_client(
    desk: Desk, rogues: Rogues, path: str, body: dict[str, Any], manner: tuple[str, str]
) -> None:
    media, encoding = manner
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    data = json.dumps({"model": "tiny", **body}).replace("kv_", "\\u006bv_").encode(encoding)
    said = await _say(desk, f"POST {path}", data, f"Content-Type: {media}\r\n" if media else "")
    assert said.split(b" ")[1] in ((b"400",) if media == "application/json" else (b"400", b"415"))
    assert b'"BadRequestError"' in said or b'"UnsupportedMediaTypeError"' in said
    assert b"X-Request-Id: " in said
    assert not engine.seen
    assert (await desk.record()).outcome is Outcome.REJECTED


@pytest.mark.parametrize(
    "path", ["/v1/messages/count_tokens", "/invocations", "/v1/completions/derender"]
)
async def test_json_that_passes_is_unchanged(desk: Desk, rogues: Rogues, path: str) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)
    data = b'{ "seed":18446744073709551616,  "a":[[{"kv_transfer_params":null}]] }'
    said = await _say(desk, f"POST {path}", data, "Content-Type: application/json\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")
    assert engine.seen[0].raw == data


@pytest.mark.parametrize("data", [b"--b\r\n\r\n{[{[,,\r\n--b--", b"{[" * 300_000, b""])
async def test_uploads_pass_unread(desk: Desk, rogues: Rogues, data: bytes) -> None:
    engine = await rogues("d0")
    await desk.push(Mode.CHUNKED)

    async def take(seen: Seen) -> None:
        await seen.json({})

    engine.script = take
    data = data and b"RIFF" + data
    media = "Content-Type: multipart/form-data; boundary=b\r\n"
    said = await _say(desk, "POST /v1/audio/transcriptions", data, media)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert engine.seen[0].raw == data


@pytest.mark.parametrize(
    "target",
    ["/v1/chat/%63ompletions?a=1", "http://any.host/v1/chat/completions?a=1"],
)
async def test_pd_serves_an_endpoint_however_it_is_written(
    desk: Desk, rogues: Rogues, target: str
) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push()
    data = json.dumps({"model": "tiny", "messages": USER}).encode()
    said = await _say(desk, f"POST {target}", data, "Content-Type: application/json\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")
    assert [one.seen[0].path for one in (prefill, decode)] == ["/v1/chat/completions?a=1"] * 2
    record = await desk.record()
    assert (record.path, record.endpoint) == (Path.PD, "/v1/chat/completions")


async def _say(desk: Desk, line: str, data: bytes, headers: str = "") -> bytes:
    port = int(desk.plane.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said
