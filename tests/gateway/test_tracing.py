"""Where spans are collected, each leg tells its engine the id of a span of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.gateway.conftest import Rogues
from tests.gateway.desk import Desk

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def traced(desk: Desk) -> None:
    table = await desk.push()
    desk.seq += 1
    await desk.plane.push(replace(table, seq=desk.seq, traced=True))


async def test_each_leg_is_a_span_of_the_clients_trace(desk: Desk, rogues: Rogues) -> None:
    prefill, decode = await rogues("p0"), await rogues("d0")
    await traced(desk)
    status, _ = await desk.complete(headers={"Traceparent": GIVEN, "tracestate": "a=1"})
    assert status == 200
    record = await desk.record()
    trace, parent, own, flags = record.trace.split("-")
    assert f"00-{trace}-{parent}-{flags}" == GIVEN
    sent = [one.seen[0].headers["traceparent"] for one in (prefill, decode)]
    assert [one.split("-")[1] for one in sent] == [trace, trace]
    assert len({*(one.split("-")[2] for one in sent), parent, own}) == 4
    assert decode.seen[0].headers["tracestate"] == "a=1"


@pytest.mark.parametrize("given", [None, "00-aa-bb-01", f"00-{'0' * 32}-00f067aa0ba902b7-01"])
async def test_a_request_without_a_trace_begins_one(
    desk: Desk, rogues: Rogues, given: str | None
) -> None:
    engine = await rogues("p0"), await rogues("d0")
    await traced(desk)
    await desk.complete(headers={"traceparent": given} if given else None)
    record = await desk.record()
    trace, parent, _, flags = record.trace.split("-")
    assert (len(trace), parent, flags) == (32, "", "01")
    assert engine[1].seen[0].headers["traceparent"].split("-")[1] == trace


async def test_where_nobody_collects_nothing_is_touched(desk: Desk, rogues: Rogues) -> None:
    engine = await rogues("p0"), await rogues("d0")
    await desk.push()
    await desk.complete(headers={"traceparent": GIVEN})
    assert engine[0].seen[0].headers["traceparent"] == GIVEN
    assert (await desk.record()).trace == ""
