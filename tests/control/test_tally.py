"""Counts of finished requests: what is counted where, and that nothing grows without bound."""

from __future__ import annotations

from pdctl.control.request_log import RequestLog
from pdctl.control.tally import MOST_INSTANCES, MOST_KEYS, OTHER, Tally
from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord


def record(**changes: object) -> RequestRecord:
    base: dict[str, object] = {
        "id": "r", "received_at": 0.0, "endpoint": "/v1/chat/completions", "model": "m",
        "stream": True, "mode": "pd", "path": Path.PD, "path_reason": "", "outcome": Outcome.OK,
        "status": 200, "e2e_ms": 100.0, "ttft_ms": 20.0, "tpot_ms": 5.0, "prompt_tokens": 10,
        "cached_tokens": 4, "remote_tokens": 8, "completion_tokens": 3,
    }  # fmt: skip
    return RequestRecord(**{**base, **changes})  # type: ignore[arg-type]


def test_the_log_counts_what_it_takes_in() -> None:
    log = RequestLog(capacity=2)
    for _ in range(5):
        log.add(record())
    assert log.totals["pd", "ok"] == 5
    assert log.tally.tokens == {"prompt": 50, "cached": 20, "remote": 40, "completion": 15}
    assert log.tally.took["chat", ""].total == log.tally.first["chat"].total == 5


def test_legs_are_counted_by_how_they_ended() -> None:
    legs = (
        Leg("prefill", "prefill-0", "", 0.0, failure="connect", error="refused"),
        Leg("prefill", "prefill-1", "", 1.0),
        Leg("decode", "decode-0", "", 2.0, error="the stream died"),
    )
    tally = Tally()
    tally.add(record(legs=legs, retries=1, outcome=Outcome.TRUNCATED, key="alice"))
    assert tally.legs == {
        ("prefill-0", "prefill", "connect"): 1,
        ("prefill-1", "prefill", "ok"): 1,
        ("decode-0", "decode", "broken"): 1,
    }
    assert tally.retries == 1
    assert tally.keys == {("alice", "truncated"): 1}
    assert list(tally.took) == [("chat", "truncated")]


def test_what_was_served_whole_is_counted_by_reason_and_what_generates_nothing_has_no_latency() -> (
    None
):
    tally = Tally()
    tally.add(record(path=Path.AGGREGATED, path_reason="n"))
    tally.add(record(endpoint="/tokenize", path=Path.AGGREGATED, path_reason="endpoint"))
    assert tally.reasons == {"n": 1, "endpoint": 1}
    tally.add(record(path=Path.NONE, path_reason="slo", outcome=Outcome.OVERLOADED))
    tally.add(record(path=Path.NONE, outcome=Outcome.OVERLOADED))
    assert tally.refused == {"slo": 1}
    assert tally.took["chat", ""].total == 1


def test_names_are_bounded() -> None:
    tally = Tally()
    for n in range(MOST_KEYS + 50):
        tally.add(record(key=f"key-{n}"))
    assert len(tally.keys) == MOST_KEYS + 1
    assert tally.keys[OTHER, "ok"] == 50
    for n in range(MOST_INSTANCES + 5):
        tally.add(record(legs=(Leg("whole", f"decode-{n}", "", 0.0),)))
    assert tally.legs[OTHER, "whole", "ok"] == 5
    tally.add(record(key="key-3"))
    assert tally.keys["key-3", "ok"] == 2
