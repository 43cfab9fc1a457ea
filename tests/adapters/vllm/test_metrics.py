"""Reading /metrics: folding, gaps, spellings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pdctl.adapters.vllm.metrics import parse
from pdctl.domain.instance import EngineStats
from pdctl.simulated.config import SimConfig
from pdctl.simulated.engine import SimulatedEngine

REAL = Path(__file__).with_name("recorded") / "metrics_decode.txt"
"""A decode instance of vLLM 0.32 after one plain completion and three handoffs of 160 tokens."""
TWO_RANKS = """
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 50.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 10.0
vllm:prompt_tokens_by_source_total{engine="1",model_name="m",source="local_compute"} 5.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 7.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 128.0
vllm:prompt_tokens_by_source_created{engine="0",source="external_kv_transfer"} 1.7e+09
vllm:generation_tokens_total{engine="0",model_name="m"} 99.0
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="m"} 1.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 12.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 500.0
vllm:nixl_bytes_transferred_sum{engine="0",model_name="m"} 4096.0
vllm:nixl_bytes_transferred_count{engine="0",model_name="m"} 2.0
vllm:nixl_num_failed_transfers_total{engine="0",model_name="m"} 1.0
vllm:nixl_num_kv_expired_reqs_total{engine="0",model_name="m"} 2.0
vllm:num_preemptions_total{engine="0",model_name="m"} 6.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 2.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="m",reason="deferred"} 3.0
vllm:num_requests_kv_fetch_by_stage{engine="0",model_name="m",stage="waiting_to_start"} 4.0
vllm:num_requests_kv_fetch_by_stage{engine="0",model_name="m",stage="in_progress"} 5.0
vllm:num_requests_kv_fetch_by_stage{engine="1",model_name="m",stage="in_progress"} 1.0
vllm:num_requests_kv_fetch_by_stage{engine="0",model_name="m",stage="completed_waiting"} 7.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 25.0
vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 75.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 70.0
vllm:nixl_xfer_time_seconds_sum{engine="0",model_name="m"} 0.5
vllm:nixl_post_time_seconds_sum{engine="0",model_name="m"} 0.25
vllm:nixl_num_notifications_after_expiry_total{engine="0",model_name="m"} 1.0
"""


def test_ranks_are_folded() -> None:
    stats = parse(TWO_RANKS, at=5.0)
    assert stats.at == 5.0
    assert (stats.running, stats.waiting) == (7.0, 1.0)
    assert stats.kv_usage == pytest.approx(0.375)
    assert (stats.prompt_tokens_local, stats.prompt_tokens_cached) == (15.0, 7.0)
    assert stats.prompt_tokens_remote == 128.0
    assert (stats.generation_tokens, stats.iterations, stats.preemptions) == (99.0, 12.0, 6.0)
    assert (stats.nixl_bytes, stats.nixl_transfers) == (4096.0, 2.0)
    assert (stats.nixl_failures, stats.nixl_expired, stats.nixl_late) == (1.0, 2.0, 1.0)
    assert (stats.nixl_seconds, stats.nixl_post_seconds) == (0.5, 0.25)
    assert (stats.waiting_deferred, stats.ranks) == (5.0, 2)
    assert (stats.fetch_queued, stats.fetch_running, stats.fetch_done) == (4.0, 6.0, 7.0)
    assert (stats.prefix_queries, stats.prefix_hits) == (100.0, 25.0)
    assert (stats.external_queries, stats.external_hits) == (75.0, 70.0)


def test_what_an_engine_does_not_tell_is_unknown_and_not_zero() -> None:
    stats = parse("vllm:num_requests_running 2\nvllm:nixl_num_failed_transfers_total NaN\n", at=0.0)
    assert stats == EngineStats(at=0.0, running=2.0)
    assert (stats.preemptions, stats.nixl_failures, stats.prefix_hits) == (None, None, None)


def test_counters_without_total_are_the_same() -> None:
    assert parse(TWO_RANKS.replace("_total{", "{"), at=5.0) == parse(TWO_RANKS, at=5.0)


def test_nan_counts_as_missing() -> None:
    stats = parse('vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:num_requests_running 2\n', at=0.0)
    assert stats.kv_usage is None
    assert stats.running == 2.0


@given(
    model=st.text(max_size=20),
    source=st.sampled_from(["local_compute", "external_kv_transfer", "other", 'a",source="b']),
    values=st.tuples(st.floats(allow_nan=True), st.floats(min_value=0, allow_infinity=False)),
)
def test_it_reads_what_the_general_parser_reads(
    model: str, source: str, values: tuple[float, float]
) -> None:
    registry = CollectorRegistry()
    names = ["engine", "model_name", "source"]
    gauge = Gauge("vllm:num_requests_running", "g", names, registry=registry)
    counter = Counter("vllm:prompt_tokens_by_source", "c", names, registry=registry)
    gauge.labels("0", model, source).set(values[0])
    counter.labels("0", model, source).inc(values[1])
    text = generate_latest(registry).decode() + "vllm:num_preemptions_total 1\n"
    known = {
        (sample.name, sample.labels.get("source")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    stats = parse(text, at=0.0)
    running = known["vllm:num_requests_running", source]
    assert stats.running == (0.0 if math.isnan(running) else running)
    by_source = ("vllm:prompt_tokens_by_source_total", "local_compute")
    assert stats.prompt_tokens_local == known.get(by_source, 0.0)


@pytest.mark.parametrize("text", ["", "<html>", "python_gc_objects_collected_total 1\n"])
def test_what_is_no_engine_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no metrics"):
        parse(text, at=0.0)


def test_a_garbled_sample_is_refused() -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse('vllm:num_requests_running{engine="0" 3 4 5 x\n', at=0.0)


def test_a_real_scrape_is_read() -> None:
    assert parse(REAL.read_text(), at=1.0) == EngineStats(
        at=1.0,
        waiting_deferred=0.0,
        fetch_queued=0.0,
        fetch_running=0.0,
        fetch_done=0.0,
        kv_usage=0.0,
        ranks=1,
        prompt_tokens_local=8.0,
        prompt_tokens_remote=480.0,
        generation_tokens=4.0,
        iterations=4.0,
        prefix_queries=488.0,
        prefix_hits=0.0,
        external_queries=488.0,
        external_hits=480.0,
        nixl_bytes=1179648.0,
        nixl_transfers=3.0,
        nixl_seconds=0.011217999999999999,
        nixl_post_seconds=0.011217999999999999,
        nixl_failures=0.0,
        nixl_expired=0.0,
        nixl_late=0.0,
        preemptions=0.0,
    )


def test_a_simulated_engine_tells_all_that_a_real_one_does() -> None:
    engine = SimulatedEngine(SimConfig(role="decode"))
    stats = parse(engine.metrics.render(), at=1.0)
    assert [name for name in stats.__slots__ if getattr(stats, name) is None] == []
