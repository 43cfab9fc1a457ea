"""The bench of policies: virtual time repeats itself, and affinity finds what turns miss."""

from __future__ import annotations

import asyncio

from benchmarks.policies import Fleet
from benchmarks.traffic import flood, workloads
from benchmarks.virtual import VirtualLoop


def played(row: str, routers: int = 1, kind: str = "chat") -> list[tuple[float, int]]:
    """(time to the first token, cached tokens) of each request."""
    fleet = Fleet(row, (2, 2), routers)
    traffic = next(one for one in workloads(seed=3, size=60) if one.name == kind)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(fleet.serve(traffic))
    assert len(fleet.stories) == traffic.requests
    return [(one.ttft_s, one.cached) for one in fleet.stories]


def good(row: str) -> float:
    """Share of a flood's requests that were good."""
    fleet, traffic = Fleet(row, (2, 2)), flood(seed=3, size=150)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(fleet.serve(traffic))
    assert len(fleet.stories) + fleet.refused == traffic.requests
    met = [
        one
        for one in fleet.stories
        if one.ttft_s <= traffic.ttft_s and one.tpot_s <= traffic.tpot_s
    ]
    return len(met) / traffic.requests


def test_admission_keeps_some_in_time_where_all_would_be_late() -> None:
    late = good("least_loaded")
    assert good("least_loaded, slo, queue") > 2 * late + 0.1
    assert good("least_loaded, slo, refuse") > 2 * late + 0.1


def test_a_run_depends_on_its_seed_only() -> None:
    assert played("power_of_two") == played("power_of_two")


def test_affinity_finds_more_in_the_caches_than_turns_do() -> None:
    turns, affine = played("round_robin"), played("prefix_affinity")
    assert sum(cached for _, cached in affine) > 1.2 * sum(cached for _, cached in turns)


def test_events_tell_each_router_what_the_others_sent() -> None:
    guessed, told = (played(row, 4, "agents") for row in ("prefix_affinity", "kv_events"))
    assert sum(cached for _, cached in told) > 1.05 * sum(cached for _, cached in guessed)
