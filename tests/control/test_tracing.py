"""The queue of spans: bounded, honest about what it lost, in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pdctl.control import tracing
from pdctl.control.tracing import Tracing
from pdctl.domain.tracing import Span
from pdctl.tasks import settle, spawn
from tests.control.test_tally import record


class Collector:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.away = False
        self.broken = False

    async def send(self, batch: Sequence[Span]) -> bool:
        if self.broken:
            raise OSError("no route")
        if not self.away:
            self.spans += batch
        return not self.away


class Bench:
    def __init__(self) -> None:
        self.collector, self.said = Collector(), list[tuple[str, str]]()
        self.tracing = Tracing(self.collector, lambda *words: self.said.append(words))


async def test_generations_are_sent_and_the_rest_is_not() -> None:
    bench = Bench()
    bench.tracing.add(record(id="a"))
    bench.tracing.add(record(id="b", endpoint="/tokenize"))
    bench.tracing.add(record(id="c", trace=f"{'1' * 32}-{'2' * 16}-{'3' * 16}-00"))
    await bench.tracing.flush()
    assert [dict(one.attributes)["pd.request.id"] for one in bench.collector.spans] == ["a"]
    assert (bench.tracing.sent, bench.tracing.dropped, bench.said) == (1, 0, [])


async def test_a_collector_that_is_away_costs_spans_and_is_told_once() -> None:
    bench = Bench()
    for away, broken in ((True, False), (False, True), (False, False), (False, False)):
        bench.collector.away, bench.collector.broken = away, broken
        bench.tracing.add(record())
        await bench.tracing.flush()
    assert (bench.tracing.sent, bench.tracing.dropped) == (2, 2)
    assert [level for level, _ in bench.said] == ["warning", "info"]
    assert "2 requests have none" in bench.said[1][1]


async def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "KEPT", 3)
    bench = Bench()
    for _ in range(5):
        bench.tracing.add(record())
    assert bench.tracing.dropped == 2
    await bench.tracing.flush()
    assert len(bench.collector.spans) == 3


async def test_what_waits_at_the_end_is_sent() -> None:
    bench = Bench()
    running = spawn(bench.tracing.run(), name="spans under test")
    bench.tracing.add(replace(record(), id="last"))
    await asyncio.sleep(0)
    await settle(running)
    assert len(bench.collector.spans) == 1
