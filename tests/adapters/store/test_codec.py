"""Dataclasses through JSON and back, and rows that are older or newer than the code."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.records import record
from tests.fakes.world import spec

from pdctl.adapters.store import codec
from pdctl.domain.handoff import Leg, RequestRecord
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Endpoint, EngineStats, ExitInfo, Instance, Progress, Slot
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import EngineSpec, FleetSpec, Mode, PoolSpec, Role, SloSpec

TEXT = st.text(max_size=12)
ARGS = st.lists(
    st.tuples(TEXT, st.one_of(TEXT, st.booleans(), st.integers(-5, 5), st.floats(-1, 1))),
    max_size=3,
).map(tuple)
ENV = st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)
POOLS = st.builds(
    PoolSpec,
    name=TEXT.map(PoolName),
    role=st.sampled_from(Role),
    size=st.integers(0, 9),
    args=ARGS,
    env=ENV,
    devices=st.lists(TEXT, max_size=2).map(tuple),
)
FLEETS = st.builds(
    FleetSpec,
    name=TEXT,
    model=TEXT,
    served_name=TEXT,
    mode=st.sampled_from(Mode),
    engine=st.builds(EngineSpec, args=ARGS, env=ENV),
    connector=st.just(spec().connector),
    pools=st.lists(POOLS, max_size=3).map(tuple),
    slos=st.lists(st.builds(SloSpec, name=TEXT, ttft_ms=st.none() | st.floats(1, 9))).map(tuple),
    revision=st.integers(0, 99),
    source=TEXT,
)


def through_json(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(codec.dumps(value))
    return data


def instance() -> Instance:
    """One with every optional part filled."""
    exit_ = ExitInfo(None, 9, 5.0, ("a", "b"), "b")
    return Instance(
        id=InstanceId("decode-0"), pool=PoolName("decode"), role=Role.DECODE,
        slot=Slot(0, 18000, 18100, "0,1", "0-3"), fingerprint="f", phase=Phase.BACKOFF,
        reason=Reason.EXITED, message="m", since=1.5, endpoint=Endpoint("127.0.0.1", 18000, 18100),
        generation=3, nonce="n", pid=7, shim_pid=6, failures=2, retry_at=4.0, drain_deadline=5.0,
        progress=Progress("loading", None), stats=EngineStats(at=2.0, kv_usage=0.5), exit=exit_,
        first_failure=exit_, inflight=1,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(FLEETS)
def test_a_fleet_comes_back_equal(fleet: FleetSpec) -> None:
    back = codec.decode(FleetSpec, through_json(fleet))
    assert back == fleet
    assert back.source == fleet.source
    assert hash(back) == hash(fleet)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_a_request_record_comes_back_equal(seed: int) -> None:
    one = record(Random(seed), seed, 1e9)
    assert codec.decode(RequestRecord, through_json(one)) == one


def test_an_instance_comes_back_equal() -> None:
    assert codec.decode(Instance, through_json(instance())) == instance()


def test_a_row_of_a_newer_pdctl_is_read_without_what_we_do_not_know() -> None:
    data = through_json(instance())
    data["aura"] = "green"
    data["slot"]["rack"] = 4
    assert codec.decode(Instance, data) == instance()


def test_a_row_of_an_older_pdctl_takes_defaults() -> None:
    data = through_json(instance())
    del data["vitals"], data["inflight"]
    assert codec.decode(Instance, data).inflight == 0


def test_a_row_without_what_is_needed_says_so() -> None:
    with pytest.raises(ValueError, match="Instance without phase"):
        codec.decode(Instance, dict.fromkeys(("id", "pool"), 1) | {
            "role": "both", "slot": {"index": 0, "http_port": 1, "side_channel_port": 2},
            "fingerprint": "",
        })  # fmt: skip


def test_numbers_that_json_lacks_come_back_as_unknown_numbers() -> None:
    leg = Leg("decode", "decode-0", "", 1.0, engine=(("mean_itl_ms", math.nan),))
    ((name, value),) = codec.decode(Leg, through_json(leg)).engine
    assert name == "mean_itl_ms"
    assert math.isnan(value)


def test_text_that_no_encoding_takes_does_not_stop_a_row() -> None:
    assert codec.dumps({"id": "\ud800"}) == '{"id": "\\ud800"}'
    odd = replace(record(Random(1), 1, 1e9), id="\ud800")
    assert codec.decode(RequestRecord, through_json(odd)) == odd
