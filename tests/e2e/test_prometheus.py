"""A real Prometheus scrapes a live fleet, evaluates our rules and fills our dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.test_deploy import expressions
from tests.e2e.live import LiveFleet, free_ports, wait_for
from tests.fakes.prometheus import Prometheus, find, running

program = find("prometheus")
pytestmark = pytest.mark.skipif(program is None, reason="no Prometheus here (make prometheus)")
PROMPT = "a prompt that is long enough to be handed over " * 20
QUIET = {
    "Legs that did not go well", "Served whole in PD mode, by reason", "Requests by API key",
    "Trouble", "Devices busy", "Within their objective", "Why objectives were missed",
    "KV that waits to be pulled", "Signals",
}  # fmt: skip
"""Empty while all is well, where nobody uses keys or names an objective, and without a GPU."""


@pytest.fixture
def prometheus(simulated_fleet: LiveFleet, tmp_path: Path) -> Iterator[Prometheus]:
    target = simulated_fleet.admin.removeprefix("http://")
    assert program is not None
    with running(program, tmp_path, free_ports(1)[0], target) as server:
        wait_for("an answer of Prometheus", server.ready, seconds=60)
        wait_for("a scrape", lambda: server.ask('up{job="pdctl"} == 1'), seconds=60)
        yield server


def plain(query: str) -> str:
    """A query as Grafana would send it."""
    return query.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*")


def test_the_dashboard_fills(simulated_fleet: LiveFleet, prometheus: Prometheus) -> None:
    simulated_fleet.set_mode("pd")
    queries = [(title, plain(query)) for title, query in expressions()]

    def empty() -> list[tuple[str, str]]:
        simulated_fleet.http.post(
            f"{simulated_fleet.router}/v1/completions",
            json={"model": "tiny", "prompt": PROMPT, "max_tokens": 8, "stream": True},
        ).raise_for_status()
        return [one for one in queries if one[0] not in QUIET and not prometheus.ask(one[1])]

    try:
        wait_for("a full dashboard", lambda: not empty(), seconds=180)
    except AssertionError as error:
        raise AssertionError(f"{error}: still empty: {empty()}") from None
    for title, query in queries:
        assert isinstance(prometheus.ask(query), list), title


def test_the_rules_are_evaluated(simulated_fleet: LiveFleet, prometheus: Prometheus) -> None:
    simulated_fleet.complete(prompt="hello")
    wait_for("a record", lambda: prometheus.ask("pdctl:pool_ready"), seconds=60)
    answer = prometheus.http.get(f"{prometheus.url}/api/v1/rules").json()
    rules = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
    assert len(rules) > 20
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []
    assert {one["metric"]["instance"] for one in prometheus.ask("pdctl_instance_ready == 1")} == {
        "prefill-0",
        "decode-0",
    }
