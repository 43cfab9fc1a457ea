"""What is wanted and what is there: mode, pools, instances by phase, pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)

from pdctl import __version__
from pdctl.api.views import simulated
from pdctl.control.plane import ControlPlane
from pdctl.domain import pairing
from pdctl.domain.fleet import Fleet
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode


def families(plane: ControlPlane) -> Iterator[Metric]:
    """The fleet's own."""
    fleet, made_up = plane.state.fleet, simulated(plane)
    build = {"version": __version__, "simulated": str(made_up).lower()}
    yield InfoMetricFamily("pdctl_build", "This pdctl.", value=build)
    yield GaugeMetricFamily(
        "pdctl_simulated", "1 when the engines are simulated: no vLLM runs.", float(made_up)
    )
    mode = GaugeMetricFamily("pdctl_mode", "1 for the routing mode in force.", labels=["mode"])
    for one in Mode:
        mode.add_metric([one.value], float(fleet.desired.mode is one))
    yield mode
    yield GaugeMetricFamily(
        "pdctl_revision", "Revision of the desired state.", value=fleet.desired.revision
    )
    yield CounterMetricFamily("pdctl_events", "Facts in the feed.", value=plane.feed.seq)
    yield from _pools(fleet)
    yield from _instances(fleet)
    yield _pairs(fleet)


def _pools(fleet: Fleet) -> Iterator[Metric]:
    desired = GaugeMetricFamily("pdctl_pool_desired", "Wanted instances.", labels=["pool"])
    phases = GaugeMetricFamily("pdctl_instances", "Instances by phase.", labels=["pool", "phase"])
    for pool in fleet.desired.pools:
        desired.add_metric([pool.name], pool.size)
        found = Counter(one.phase for one in fleet.instances if one.pool == pool.name)
        for phase in Phase:
            phases.add_metric([pool.name, phase.value], found[phase])
    yield desired
    yield phases


def _instances(fleet: Fleet) -> Iterator[Metric]:
    info = InfoMetricFamily("pdctl_instance", "Where it belongs.", labels=["instance"])
    ready = GaugeMetricFamily(
        "pdctl_instance_ready", "1 while it takes requests.", labels=["instance"]
    )
    starts = GaugeMetricFamily(
        "pdctl_instance_starts", "Starts of this id, the present one included.", labels=["instance"]
    )
    failures = GaugeMetricFamily(
        "pdctl_instance_failures", "Failures in a row, 0 once it works.", labels=["instance"]
    )
    for one in fleet.instances:
        info.add_metric([one.id], {"pool": one.pool, "role": one.role.value})
        ready.add_metric([one.id], float(one.phase is Phase.READY))
        starts.add_metric([one.id], one.generation)
        failures.add_metric([one.id], one.failures)
    yield from (info, ready, starts, failures)


def _pairs(fleet: Fleet) -> Metric:
    pairs = GaugeMetricFamily("pdctl_pairs", "P x D pairs by state.", labels=["state"])
    away = pairing.absent(fleet.instances)
    states = Counter(pairing.shown(pair, away)[0] for pair in fleet.pairs)
    for state in pairing.STATES:
        pairs.add_metric([state], states[state])
    return pairs
