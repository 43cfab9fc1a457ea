"""The front door: what is open now, and what has finished since this control plane began.

Router workers tell of every finished request and keep no counts, so a worker that ends takes none
along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from pdctl.control.plane import ControlPlane
from pdctl.control.tally import Tally
from pdctl.domain.handoff import Load, Path

CIRCUITS = ("open", "half_open")
PATHS = (Path.PD, Path.CHUNKED, Path.AGGREGATED)


def families(plane: ControlPlane) -> Iterator[Metric]:
    """The router's own."""
    yield from _open(plane.load(), [one.id for one in plane.state.fleet.instances])
    yield from _workers(plane)
    yield _counter(
        "pdctl_requests", "Finished requests.", ["path", "outcome"],
        plane.requests.totals.items(),
    )  # fmt: skip
    yield from _finished(plane.requests.tally)
    yield from _kept(plane)
    yield from _spans(plane)


def _open(load: Load, instances: Iterable[str]) -> Iterator[Metric]:
    inflight = GaugeMetricFamily(
        "pdctl_router_inflight", "Open legs by instance.", labels=["instance"]
    )
    for instance, count in {**dict.fromkeys(instances, 0), **load.inflight}.items():
        inflight.add_metric([instance], count)
    yield inflight
    open_ = GaugeMetricFamily("pdctl_router_requests", "Open requests by path.", labels=["path"])
    for path, count in {**dict.fromkeys(map(str, PATHS), 0), **load.paths}.items():
        open_.add_metric([path], count)
    yield open_
    yield GaugeMetricFamily("pdctl_router_queued", "Waiting requests.", value=load.queued)
    circuits = GaugeMetricFamily(
        "pdctl_router_circuit", "1 for the state of a circuit breaker that is not closed.",
        labels=["instance", "state"],
    )  # fmt: skip
    for instance, circuit in load.circuits.items():
        for state in CIRCUITS:
            circuits.add_metric([instance, state], float(circuit.state == state))
    yield circuits


def _workers(plane: ControlPlane) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "pdctl_router_worker_up", "1 while a process of the router is connected and answers.",
        labels=["slot", "pid", "state"],
    )  # fmt: skip
    lost = CounterMetricFamily(
        "pdctl_router_worker_lost_records", "Records that nobody took from it in time.",
        labels=["slot", "pid"],
    )  # fmt: skip
    for worker in plane.router_workers():
        works = worker.state not in ("away", "silent")
        up.add_metric([str(worker.slot), str(worker.pid), worker.state], float(works))
        lost.add_metric([str(worker.slot), str(worker.pid)], worker.dropped)
    yield from (up, lost)


def _finished(tally: Tally) -> Iterator[Metric]:
    yield _counter(
        "pdctl_aggregated_requests", "Served whole although the mode is PD.", ["reason"],
        [((reason,), count) for reason, count in tally.reasons.items()],
    )  # fmt: skip
    yield _counter(
        "pdctl_refused_requests", "Given no route for a reason that has a word.", ["reason"],
        [((reason,), count) for reason, count in tally.refused.items()],
    )  # fmt: skip
    yield _counter(
        "pdctl_key_requests", "Finished requests by API key (its name).", ["key", "outcome"],
        tally.keys.items(),
    )  # fmt: skip
    yield _counter(
        "pdctl_legs", "Attempts at an instance.", ["instance", "kind", "result"],
        tally.legs.items(),
    )  # fmt: skip
    yield CounterMetricFamily("pdctl_retries", "Legs tried again.", value=tally.retries)
    yield _counter(
        "pdctl_tokens", "Tokens of finished requests, as their engines counted them.", ["kind"],
        [((kind,), count) for kind, count in tally.tokens.items()],
    )  # fmt: skip


def _kept(plane: ControlPlane) -> Iterator[Metric]:
    """What became of the records on their way to the store, and there."""
    intake, retention = plane.intake, plane.retention
    rows = [] if intake is None else [
        (("stored",), intake.stored), (("not_drawn",), intake.passed_over),
        (("lost",), intake.dropped),
    ]  # fmt: skip
    yield _counter(
        "pdctl_request_records", "Records of finished requests, by what the store did with them.",
        ["fate"], rows,
    )  # fmt: skip
    gone = [] if retention is None else [((why,), n) for why, n in retention.dropped.items()]
    yield _counter(
        "pdctl_request_records_dropped", "Stored records dropped to keep the bounds, by bound.",
        ["bound"], gone,
    )  # fmt: skip


def _spans(plane: ControlPlane) -> Iterator[Metric]:
    tracing = plane.tracing
    sent = CounterMetricFamily("pdctl_spans_sent", "Spans that the trace collector took.")
    lost = CounterMetricFamily(
        "pdctl_spans_lost_requests", "Requests whose spans it did not take in time."
    )
    if tracing is not None:
        sent.add_metric([], tracing.sent)
        lost.add_metric([], tracing.dropped)
    yield from (sent, lost)


def _counter(
    name: str, what: str, labels: list[str], rows: Iterable[tuple[tuple[str, ...], int]]
) -> Metric:
    family = CounterMetricFamily(name, what, labels=labels)
    for values, count in sorted(rows):
        family.add_metric(list(values), count)
    return family
