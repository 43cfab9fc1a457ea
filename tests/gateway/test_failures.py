"""What fails before the first byte is tried elsewhere once, and never hides behind a 200."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import CHAT, COMPLETIONS, Desk
from tests.gateway.rogue import PARAMS, Rogue, Seen, completion_events, event, hang, prefill_then

from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode

ROLE = event({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})


def nobody() -> Any:
    """A port on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    nothing = Rogue()
    nothing.port = port
    return nothing


def answer(status: int, message: str = "engine says no") -> Any:
    async def play(seen: Seen) -> None:
        await seen.json({"error": {"message": message, "type": "x", "code": status}}, status)

    return play


async def test_a_4xx_of_prefill_is_the_answer_unchanged(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push(retries=3)
    body = b'{"error": {"message": "too long",  "type": "BadRequestError", "code": 400}}'

    async def reject(seen: Seen) -> None:
        await seen.json(body, 400, X_Extra="kept")

    prefill.script = reject
    request = {"model": "tiny", "prompt": "x", "stream": True}
    async with desk.client.post(COMPLETIONS, json=request) as got:
        assert (got.status, await got.read()) == (400, body)
        assert got.headers["X-Extra"] == "kept"
    assert not decode.seen
    record = await desk.record()
    assert (record.outcome, record.status, record.retries) == (Outcome.REJECTED, 400, 0)
    await desk.idle()


async def test_a_4xx_of_decode_is_the_answer_unchanged(desk: Desk, rogues: Rogues) -> None:
    await rogues("p0")
    decode = await rogues("d0")
    await desk.push()
    decode.script = prefill_then(answer(422, "bad grammar"))
    status, body = await desk.complete()
    assert (status, body["error"]["message"]) == (422, "bad grammar")


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_failed_prefill_is_tried_on_another(
    desk: Desk, rogues: Rogues, status: int
) -> None:
    first, second, _ = await rogues("p0"), await rogues("p1"), await rogues("d0")
    await desk.push()
    first.script = answer(status)
    assert (await desk.complete())[0] == 200
    record = await desk.record()
    assert (record.path, record.retries) == (Path.PD, 1)
    assert [(leg.kind, leg.instance) for leg in record.legs] == [
        ("prefill", "p0"), ("prefill", "p1"), ("decode", "d0"),
    ]  # fmt: skip
    assert (record.legs[0].error, record.legs[0].failure) == ("engine says no", "status")
    assert len(second.seen) == 1
    await desk.idle()


async def test_a_failed_decode_prefills_again(desk: Desk, rogues: Rogues) -> None:
    prefill, first, second = await rogues("p0"), await rogues("d0"), await rogues("d1")
    await desk.push()
    first.script = answer(503)
    assert (await desk.complete())[0] == 200
    kinds = [leg.kind for leg in (await desk.record()).legs]
    assert kinds == ["prefill", "decode", "prefill", "decode"]
    assert len(prefill.seen) == 2
    assert len(second.seen) == 1


async def test_a_refused_connection_pauses_the_instance_and_is_reported(
    desk: Desk, rogues: Rogues
) -> None:
    desk.engines["p0"] = nobody()
    await rogues("d0")
    await desk.push()
    assert (await desk.complete())[0] == 200
    record = await desk.record()
    assert (record.path, record.path_reason) == (Path.AGGREGATED, "no_prefill")
    assert (record.retries, record.legs[0].error) == (1, "Connection refused")
    assert [one.instance for one in desk.suspects] == ["p0"]
    await desk.complete()
    paused = await desk.record(2)
    assert [leg.kind for leg in paused.legs] == ["whole"]
    await rogues("p0")
    await desk.push(generation=2)
    await desk.complete()
    assert (await desk.record(3)).path is Path.PD


async def test_a_refused_connection_with_no_other_way_is_502(desk: Desk) -> None:
    desk.engines["d0"] = nobody()
    await desk.push(Mode.CHUNKED)
    status, body = await desk.complete()
    assert (status, body["error"]["type"]) == (502, "BadGatewayError")
    assert str(desk.engines["d0"].port) not in str(body)
    status, body = await desk.complete()
    assert (status, body["error"]["type"]) == (503, "ServiceUnavailableError")
    await until(lambda: len(desk.records) == 2)
    assert [one.outcome for one in desk.records] == [Outcome.UPSTREAM_ERROR, Outcome.NO_INSTANCE]


async def test_a_silent_engine_is_504(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")
    decode.script = hang
    await desk.push(Mode.CHUNKED, first_byte_timeout_s=1.0)
    status, body = await desk.complete()
    assert (status, body["error"]["type"]) == (504, "GatewayTimeoutError")
    assert (await desk.record()).outcome is Outcome.TIMEOUT
    await until(lambda: bool(decode.seen) and decode.seen[0].gone.is_set())


async def test_headers_without_a_first_event_are_504_too(desk: Desk, rogues: Rogues) -> None:
    decode = await rogues("d0")

    async def only_headers(seen: Seen) -> None:
        await seen.events(end=False)
        await hang(seen)

    decode.script = only_headers
    await desk.push(Mode.CHUNKED, first_byte_timeout_s=0.2, retries=0)
    status, _ = await desk.complete(stream=True)
    assert status == 504


async def test_an_engine_that_dies_before_its_first_token_is_replaced(
    desk: Desk, rogues: Rogues
) -> None:
    first, second = await rogues("d0"), await rogues("d1")

    async def die(seen: Seen) -> None:
        await seen.events(ROLE, end=False)
        seen.die()

    async def chat(seen: Seen) -> None:
        text = {"delta": {"content": "hi"}, "finish_reason": "stop"}
        await seen.events(ROLE, event({"choices": [text]}), b"data: [DONE]\n\n")

    first.script, second.script = die, chat
    await desk.push(Mode.CHUNKED)
    messages = [{"role": "user", "content": "x"}]
    data = await desk.raw(CHAT, {"model": "tiny", "messages": messages, "stream": True})
    assert data.count(b'"role"') == 1
    assert data.endswith(b"[DONE]\n\n")
    record = await desk.record()
    assert (record.outcome, record.retries) == (Outcome.OK, 1)
    assert desk.suspects[0].instance == "d0"


ABORTS = {
    "empty": [b"data: [DONE]\n\n"],
    "finish": [*completion_events("", finish="abort")],
    "role": [ROLE, b"data: [DONE]\n\n"],
    "error": [event({"error": {"message": "KV load failed", "code": 500}}), b"data: [DONE]\n\n"],
}


@pytest.mark.parametrize("name", ABORTS)
async def test_an_aborted_stream_is_no_answer(desk: Desk, rogues: Rogues, name: str) -> None:
    first, second = await rogues("d0"), await rogues("d1")

    async def abort(seen: Seen) -> None:
        await seen.events(*ABORTS[name])

    first.script = abort
    await desk.push(Mode.CHUNKED)
    data = await desk.raw(COMPLETIONS, {"model": "tiny", "prompt": "x", "stream": True})
    assert b"Hello" in data
    assert len(second.seen) == 1
    assert (await desk.record()).retries == 1


async def test_an_aborted_whole_answer_is_no_answer(desk: Desk, engines: Engines) -> None:
    bad = await engines("d0")
    await engines("d1")
    bad.faults.abort_finish = True
    await desk.push(Mode.CHUNKED)
    status, body = await desk.complete(max_tokens=3)
    assert (status, body["choices"][0]["finish_reason"]) == (200, "length")
    record = await desk.record()
    assert (record.retries, record.legs[1].instance) == (1, "d1")


async def test_when_all_abort_the_client_is_told(desk: Desk, engines: Engines) -> None:
    bad = await engines("d0")
    bad.faults.abort_finish = True
    await desk.push(Mode.CHUNKED)
    status, body = await desk.complete()
    assert (status, body["error"]["type"]) == (503, "ServiceUnavailableError")


@pytest.mark.parametrize("fault", ["missing_params", "partial_params"])
async def test_missing_params_are_recomputed_and_said(
    desk: Desk, engines: Engines, fault: str
) -> None:
    prefill = await engines("p0")
    await engines("d0")
    setattr(prefill.faults, fault, True)
    await desk.push()
    status, body = await desk.complete(max_tokens=4)
    assert (status, body["usage"]["completion_tokens"]) == (200, 4)
    record = await desk.record()
    assert (record.path, record.path_reason) == (Path.AGGREGATED, "params_missing")
    assert [leg.kind for leg in record.legs] == ["prefill", "whole"]
    assert "kv_transfer_params" in record.legs[0].error
    await desk.idle()


async def test_params_are_used_once_and_forwarded_whole(desk: Desk, rogues: Rogues) -> None:
    await rogues("p0")
    first, second = await rogues("d0"), await rogues("d1")
    count = iter(range(9))

    async def numbered(seen: Seen) -> None:
        await prefill_then(hang, {**PARAMS, "remote_request_id": f"r{next(count)}"})(seen)

    prefill: Any = desk.engines["p0"]
    prefill.script = numbered
    first.script = answer(500)
    await desk.push(retries=2)
    assert (await desk.complete())[0] == 200
    sent = [one.body["kv_transfer_params"] for one in (*first.seen, *second.seen)]
    assert [one["remote_request_id"] for one in sent] == ["r0", "r1"]
    assert sent[1]["unknown_to_us"] == {"kept": [1, None]}


async def test_stale_params_are_thrown_away(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await desk.push(lease_s=0.0, retries=1)
    status, body = await desk.complete()
    assert (status, body["error"]["code"]) == (503, 503)
    assert len(prefill.seen) == 2
    assert not decode.seen
    assert "stale" in (await desk.record()).error


async def test_prefill_that_answers_nonsense_is_said(desk: Desk, rogues: Rogues) -> None:
    prefill, _ = await rogues("p0"), await rogues("d0")

    async def nonsense(seen: Seen) -> None:
        await seen.json(b"[1, 2")

    prefill.script = nonsense
    await desk.push()
    assert (await desk.complete())[0] == 200
    assert (await desk.record()).path_reason == "params_missing"


async def test_no_table_and_no_instance_are_503(desk: Desk) -> None:
    status, body = await desk.complete()
    assert (status, body["error"]["type"]) == (503, "ServiceUnavailableError")
    await desk.push()
    async with desk.client.post(COMPLETIONS, json={"model": "tiny", "prompt": "x"}) as got:
        assert got.status == 503
        assert got.headers["Retry-After"] == "5"
    assert (await desk.record(2)).outcome is Outcome.NO_INSTANCE
