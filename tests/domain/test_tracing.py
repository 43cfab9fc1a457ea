"""Contexts and spans: the tree, the times, the names, and nothing that a client wrote."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.tracing import begin, leg_parent, sampled, spans

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_numbers = count(1)


def draw(size: int) -> str:
    return f"{next(_numbers):0{2 * size}x}"


RECORD = RequestRecord(
    id="r1", received_at=1000.0, endpoint="/v1/chat/completions", model="tiny", stream=True,
    mode="pd", path=Path.PD, path_reason="", outcome=Outcome.OK, status=200, key="alice",
    queued_ms=5.0, ttft_ms=90.0, e2e_ms=200.0, prompt_tokens=100, completion_tokens=9,
    finish_reason="stop", remote_tokens=96, trace=begin(GIVEN, lambda size: "ab" * size),
    legs=(
        Leg("prefill", "prefill-0", "least loaded", 5.0, 40.0, None, 41.0, 200),
        Leg("decode", "decode-0", "only one", 42.0, 80.0, 88.0, 199.0, 200),
    ),
)  # fmt: skip


def test_a_context_continues_the_clients_trace() -> None:
    assert begin(GIVEN, lambda size: "ab" * size) == (
        "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-abababababababab-01"
    )


@pytest.mark.parametrize(
    "given",
    [
        "", "nonsense", "00-aa-bb-01", GIVEN.upper(), "ff" + GIVEN[2:], GIVEN[:-2],
        f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{'1' * 32}-{'0' * 16}-01",
    ],
)  # fmt: skip
def test_what_is_no_context_begins_a_trace(given: str) -> None:
    trace, parent, own, flags = begin(given, lambda size: "ab" * size).split("-")
    assert (trace, parent, own, flags) == ("ab" * 16, "", "ab" * 8, "01")


def test_who_began_the_trace_decides_whether_it_is_kept() -> None:
    assert sampled("")
    assert sampled(begin(GIVEN, draw))
    assert not sampled(begin(GIVEN[:-2] + "00", draw))


def test_ids_of_legs_are_those_that_the_engines_were_told() -> None:
    found = {span.name: span for span in spans(RECORD, draw)}
    for index, name in enumerate(("pd.prefill", "pd.decode")):
        told = leg_parent(RECORD.trace, index).split("-")
        assert (found[name].trace, found[name].id) == (told[1], told[2])
    last = replace(RECORD, trace=f"{'1' * 32}--{'f' * 16}-01")
    assert leg_parent(last.trace, 0).split("-")[2] != "0" * 16


def test_the_tree_and_its_times() -> None:
    root, queue, prefill, decode, transfer = spans(RECORD, draw)
    assert (root.name, root.kind, root.parent) == ("chat tiny", "server", "00f067aa0ba902b7")
    assert (root.start, root.end, root.error) == (1000.0, 1000.2, "")
    assert {one.parent for one in (queue, prefill, decode)} == {root.id}
    assert transfer.parent == decode.id
    assert (prefill.start, prefill.end) == (1000.005, 1000.041)
    assert (decode.start, decode.end) == (1000.042, 1000.199)
    assert transfer.start == decode.start
    assert transfer.end == pytest.approx(1000.088)
    assert dict(transfer.attributes) == {"pd.source": "derived", "pd.kv.tokens_remote": 96}
    assert len({one.id for one in (root, queue, prefill, decode, transfer)}) == 5


def test_the_request_has_the_names_of_the_conventions() -> None:
    told = dict(spans(RECORD, draw)[0].attributes)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == "tiny"
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (100, 9)
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert "error.type" not in told
    assert told["pd.key.name"] == "alice"


def test_a_failure_is_an_error_and_a_clients_mistake_is_none() -> None:
    leg = Leg("prefill", "prefill-0", "", 1.0, error="refused", failure="connect")
    broken = replace(RECORD, legs=(leg,), outcome=Outcome.UPSTREAM_ERROR, error="no instance")
    root, _, prefill = spans(broken, draw)
    assert (root.error, prefill.error) == ("no instance", "refused")
    assert dict(prefill.attributes)["error.type"] == "connect"
    rejected = replace(RECORD, legs=(), outcome=Outcome.REJECTED, error="bad body", trace="")
    root = spans(rejected, draw)[0]
    assert (root.error, root.parent) == ("", "")
    assert dict(root.attributes)["error.type"] == "rejected"
