"""Latency as the router measured it, by path and by pool, and by OpenTelemetry's names.

Buckets have vLLM's edges (and the conventions' own), so that panels line up. They are folded from
finer buckets (1 % wide): a value within 1 % of an edge may be counted on its other side.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.metrics_core import HistogramMetricFamily

from pdctl.api.views import simulated
from pdctl.control.plane import ControlPlane
from pdctl.domain.handoff import Path
from pdctl.domain.histogram import Histogram

TTFT_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
REQUEST_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
HISTOGRAMS = {
    "ttft": ("time_to_first_token", "First token as the client saw it.", TTFT_S),
    "tpot": ("time_per_output_token", "Per request, after the first token.", TOKEN_S),
    "itl": ("inter_token_latency", "Gaps between token-bearing chunks.", TOKEN_S),
    "e2e": ("e2e_request_latency", "Whole requests.", REQUEST_S),
    "queue": ("request_queue_time", "Time in the router's own queue.", TTFT_S),
}
GENAI_REQUEST_S = tuple(0.01 * 2**n for n in range(14))
GENAI_TTFT_S, GENAI_TOKEN_S = TTFT_S[:16], TOKEN_S[:13]
"""Edges that the conventions advise for gen_ai.server.*"""


def families(plane: ControlPlane) -> Iterator[Metric]:
    """Every distribution."""
    for metric, (name, what, edges) in HISTOGRAMS.items():
        family = HistogramMetricFamily(f"pdctl_{name}_seconds", what, labels=["path"])
        for path in Path:
            _add(
                family, [path.value], plane.latency.view(metric, f"mode:{path.value}", None), edges
            )
        yield family
        family = HistogramMetricFamily(
            f"pdctl_pool_{name}_seconds", f"{what} By the pools that served it.", labels=["pool"]
        )
        for pool in plane.state.fleet.desired.pools:
            found = plane.latency.view(metric, f"pool:{pool.name}", None)
            _add(family, [pool.name], found, edges)
        yield family
    yield from _genai(plane)


def _genai(plane: ControlPlane) -> Iterator[Metric]:
    """OpenTelemetry's server metrics of generative AI, as Prometheus spells their names."""
    tally, model = plane.requests.tally, plane.state.fleet.desired.served_name
    names = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"]
    provider = "simulated" if simulated(plane) else "vllm"
    took = HistogramMetricFamily(
        "gen_ai_server_request_duration_seconds", "Whole generations (gen_ai.server.request."
        "duration); error_type is empty where it went well.", labels=[*names, "error_type"],
    )  # fmt: skip
    for (operation, error), found in sorted(tally.took.items()):
        _add(took, [operation, provider, model, error], found, GENAI_REQUEST_S)
    yield took
    rest: tuple[tuple[str, Mapping[str, Histogram], tuple[float, ...]], ...] = (
        ("time_to_first_token", tally.first, GENAI_TTFT_S),
        ("time_per_output_token", tally.pace, GENAI_TOKEN_S),
    )
    for name, book, edges in rest:
        family = HistogramMetricFamily(
            f"gen_ai_server_{name}_seconds", f"The same as gen_ai.server.{name}.", labels=names
        )
        for operation, found in sorted(book.items()):
            _add(family, [operation, provider, model], found, edges)
        yield family


def _add(
    family: HistogramMetricFamily, labels: list[str], found: Histogram, edges: tuple[float, ...]
) -> None:
    if found.total:
        family.add_metric(labels, cumulated(found, edges), total_seconds(found))


def cumulated(histogram: Histogram, edges: tuple[float, ...]) -> list[tuple[str, float]]:
    """Cumulative counts at `edges` (seconds), as Prometheus wants them."""
    counts = [0] * (len(edges) + 1)
    for low, high, count in histogram.rows():
        counts[bisect_left(edges, middle(low, high) / 1000)] += count
    names = [*(str(edge) for edge in edges), "+Inf"]
    running = 0
    rows = []
    for name, count in zip(names, counts, strict=True):
        running += count
        rows.append((name, float(running)))
    return rows


def total_seconds(histogram: Histogram) -> float:
    """Sum of all values, from the middles of their buckets (within 1 %)."""
    return sum(middle(low, high) * count for low, high, count in histogram.rows()) / 1000


def middle(low: float, high: float) -> float:
    """The value that stands for a bucket."""
    return math.sqrt(low * high) if low else high
