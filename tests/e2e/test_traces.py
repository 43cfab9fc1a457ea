"""A whole `pdctl serve` tells a collector of a request, and joins the trace of its client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.test_otlp import Collector, collector, received
from tests.e2e.live import LiveFleet, wait_for

__all__ = ["collector"]
INSIDE = 'launcher = "simulated"'
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def fleet(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveFleet]:
    monkeypatch.setenv("PDCTL_OTLP_ENDPOINT", collector.url)
    live = LiveFleet("simulated", tmp_path / "fleet", INSIDE, "tiny")
    live.write()
    live.start()
    try:
        yield live
    finally:
        if live.process is not None and live.process.poll() is None:
            live.stop()
        live.http.close()


def test_a_request_becomes_a_tree_of_spans(fleet: LiveFleet, collector: Collector) -> None:
    fleet.wait_ready()
    secret = "words that nobody else may read " * 20
    fleet.http.post(
        f"{fleet.router}/v1/completions",
        json={"model": "tiny", "prompt": secret, "max_tokens": 4},
        headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
    ).raise_for_status()
    wait_for("spans", lambda: collector.posted, seconds=60)
    (_, body), *_ = collector.posted
    assert b"nobody else may read" not in body
    _, found = received(body)
    root = found["text_completion tiny"]
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert {"pd.prefill", "pd.decode"} <= set(found)
    assert found["pd.decode"].parent_span_id == root.span_id
    metrics = fleet.http.get(f"{fleet.admin}/metrics").text
    assert "pdctl_spans_lost_requests_total 0.0" in metrics
