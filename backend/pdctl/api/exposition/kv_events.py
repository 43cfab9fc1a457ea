"""How the router follows the KV events of instances, while a policy asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from pdctl.control.plane import ControlPlane
from pdctl.domain.kv_events import KvFollowed

_COUNTS: tuple[tuple[str, str, Callable[[KvFollowed], int]], ...] = (
    ("gaps", "Times that messages were missing.", lambda one: one.gaps),
    ("replays", "Gaps that the engine filled when asked.", lambda one: one.replays),
    (
        "forgotten", "Gaps that it could not fill: what was known was forgotten.",
        lambda one: one.forgotten,
    ),
)  # fmt: skip


def families(plane: ControlPlane) -> Iterator[Metric]:
    """By instance; nothing while no policy asks."""
    followed, now = plane.load().kv_events, plane.clock.now()
    on = GaugeMetricFamily(
        "pdctl_kv_events_followed", "1 while an instance's own KV events tell what it holds.",
        labels=["instance"],
    )  # fmt: skip
    blocks = GaugeMetricFamily(
        "pdctl_kv_events_blocks", "KV blocks that every router worker knows it to hold.",
        labels=["instance"],
    )  # fmt: skip
    age = GaugeMetricFamily(
        "pdctl_kv_events_last_age", "Since its last event.", unit="seconds", labels=["instance"]
    )
    for id_, one in followed.items():
        on.add_metric([id_], float(not one.why_not))
        blocks.add_metric([id_], one.blocks)
        if one.last_event is not None:
            age.add_metric([id_], max(0.0, now - one.last_event))
    yield from (on, blocks, age)
    for name, what, count in _COUNTS:
        family = CounterMetricFamily(f"pdctl_kv_events_{name}", what, labels=["instance"])
        for id_, one in followed.items():
            family.add_metric([id_], count(one))
        yield family
