"""What the engines tell of themselves, as pdctl last read it.

Law: what is stale or not told is absent, never a zero and never an old number; the age of the last
scrape is always there. A counter begins anew with its engine, as Prometheus expects.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from pdctl.api.views import stale
from pdctl.control.plane import ControlPlane

GAUGES = (
    ("requests_running", "Requests in its batch.", "running"),
    ("requests_waiting", "Requests that wait, the deferred ones among them.", "waiting"),
    ("requests_deferred", "Requests that wait for their KV, mostly.", "waiting_deferred"),
    ("kv_usage_ratio", "Share of its KV blocks in use, the mean of its ranks.", "kv_usage"),
    ("ranks", "Data-parallel ranks that are counted together.", "ranks"),
)
"""(name, what it is, field of `EngineStats`)"""
COUNTERS = (
    ("generation_tokens", "Tokens generated.", "generation_tokens"),
    ("iterations", "Steps of its scheduler: its heartbeat.", "iterations"),
    ("preemptions", "Requests thrown out of the batch for want of KV blocks.", "preemptions"),
    ("prefix_cache_queries", "Prompt tokens looked up in its own cache.", "prefix_queries"),
    ("prefix_cache_hits", "Prompt tokens found there.", "prefix_hits"),
    ("external_cache_queries", "Prompt tokens asked of the connector.", "external_queries"),
    ("external_cache_hits", "Prompt tokens that the connector loaded.", "external_hits"),
    ("nixl_bytes", "Bytes of KV pulled.", "nixl_bytes"),
    ("nixl_transfers", "Pulls of KV.", "nixl_transfers"),
    ("nixl_transfer_seconds", "Time of all pulls together.", "nixl_seconds"),
    ("nixl_post_seconds", "Time spent posting pulls.", "nixl_post_seconds"),
    ("nixl_failed_transfers", "Pulls that failed.", "nixl_failures"),
    ("nixl_expired_requests", "Requests whose KV nobody pulled within its lease.", "nixl_expired"),
    ("nixl_late_notifications", "Pulls that ended after their lease had.", "nixl_late"),
)
SOURCES = {
    "local_compute": "prompt_tokens_local",
    "local_cache": "prompt_tokens_cached",
    "handed_over": "prompt_tokens_remote",
}
STAGES = {"queued": "fetch_queued", "running": "fetch_running", "done": "fetch_done"}


def families(plane: ControlPlane) -> Iterator[Metric]:
    """The engines' own."""
    yield _ages(plane)
    for name, what, field in GAUGES:
        gauge = GaugeMetricFamily(f"pdctl_engine_{name}", what, labels=["instance"])
        yield _filled(gauge, plane, {"": field})
    for name, what, field in COUNTERS:
        counter = CounterMetricFamily(f"pdctl_engine_{name}", what, labels=["instance"])
        yield _filled(counter, plane, {"": field})
    sources = CounterMetricFamily(
        "pdctl_engine_prompt_tokens", "Prompt tokens by where their KV came from.",
        labels=["instance", "source"],
    )  # fmt: skip
    yield _filled(sources, plane, SOURCES)
    stages = GaugeMetricFamily(
        "pdctl_engine_kv_fetches", "Requests by the stage of their KV pull (decode side).",
        labels=["instance", "stage"],
    )  # fmt: skip
    yield _filled(stages, plane, STAGES)


def _ages(plane: ControlPlane) -> Metric:
    ages = GaugeMetricFamily(
        "pdctl_engine_scrape_age_seconds", "Since the engine's metrics were last read.",
        labels=["instance"],
    )  # fmt: skip
    for one in plane.state.fleet.instances:
        if one.stats is not None:
            ages.add_metric([one.id], max(0.0, plane.clock.now() - one.stats.at))
    return ages


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, plane: ControlPlane, fields: dict[str, str]
) -> Metric:
    """A sample per instance and entry of `fields` (label -> field; "" is no label of its own)."""
    for one in plane.state.fleet.instances:
        if one.stats is None or stale(plane, one.stats):
            continue
        for label, field in fields.items():
            if (value := getattr(one.stats, field)) is not None:
                family.add_metric([one.id, label] if label else [one.id], value)
    return family
