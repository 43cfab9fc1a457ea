"""What requests were judged to be, and what is wrong now: objectives, KV, leases, signals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from pdctl.control.plane import ControlPlane
from pdctl.domain.handoff import Path
from pdctl.domain.truth import Kv


def families(plane: ControlPlane) -> Iterator[Metric]:
    """Every verdict."""
    yield _objectives(plane)
    yield from _handed_over(plane)
    yield from _leases(plane)
    yield _signals(plane)


def _objectives(plane: ControlPlane) -> Metric:
    family = CounterMetricFamily(
        "pdctl_slo_requests", "Generations judged by an objective; why those missed it that did.",
        labels=["slo", "path", "result", "cause"],
    )  # fmt: skip
    for slo in plane.state.fleet.desired.slos:
        for path in Path:
            tally = plane.goodput.view(slo.name, f"mode:{path.value}", None).tally
            if not tally.total:
                continue
            family.add_metric([slo.name, path.value, "met", ""], tally.met)
            family.add_metric([slo.name, path.value, "unjudged", ""], tally.unjudged)
            for cause, count in sorted(tally.missed.items()):
                family.add_metric([slo.name, path.value, "missed", cause.value], count)
    return family


def _handed_over(plane: ControlPlane) -> Iterator[Metric]:
    counts = plane.truth.view("all", None).by
    requests = CounterMetricFamily(
        "pdctl_handed_over_requests", "Handed-over requests by what became of their KV.",
        labels=["kv"],
    )  # fmt: skip
    tokens = CounterMetricFamily(
        "pdctl_handed_over_tokens", "Their prompt tokens, offered to decode.", labels=["kv"]
    )
    for kv in Kv:
        requests.add_metric([kv.value], counts.get(kv.value, 0))
        tokens.add_metric([kv.value], counts.get(f"{kv.value}_tokens", 0))
    yield from (requests, tokens)
    yield CounterMetricFamily(
        "pdctl_kv_stranded_requests", "Requests whose KV nobody could pull any more.",
        value=counts.get("stranded", 0),
    )  # fmt: skip


def _leases(plane: ControlPlane) -> Iterator[Metric]:
    held = GaugeMetricFamily(
        "pdctl_kv_leases", "Requests whose KV waits to be pulled.", labels=["instance"]
    )
    oldest = GaugeMetricFamily(
        "pdctl_kv_lease_oldest_seconds", "Age of the oldest of them.", labels=["instance"]
    )
    for lease in plane.truth.leases():
        held.add_metric([lease.prefill], lease.requests)
        oldest.add_metric([lease.prefill], lease.oldest_s)
    yield from (held, oldest)


def _signals(plane: ControlPlane) -> Metric:
    family = GaugeMetricFamily(
        "pdctl_signals", "What is wrong now, by the rule that says so.",
        labels=["rule", "severity", "state"],
    )  # fmt: skip
    found = Counter(
        (one.rule, one.severity.value, one.state.value)
        for one in (plane.signals.all() if plane.signals else ())
    )
    for labels, count in sorted(found.items()):
        family.add_metric(list(labels), count)
    return family
