"""What is shipped for Prometheus and Grafana asks for what /metrics tells, and says what to do."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from pdctl.api.exposition.route import families
from tests.fakes.clock import VirtualClock
from tests.fakes.prometheus import DEPLOY, find
from tests.fakes.world import World

RULES = DEPLOY / "prometheus"
NAME = re.compile(r"\b(?:pdctl|gen_ai)_\w+")
RECORDED = re.compile(r"- record: (\S+)")
promtool = find("promtool")
needs_promtool = pytest.mark.skipif(promtool is None, reason="no promtool here (make prometheus)")


class Told(Collector):
    """What a world's /metrics would say."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> list[Metric]:
        return families(self._world.plane)


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "pdctl.json").read_text("utf-8"))
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """(panel, query) of the whole dashboard."""
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def told(tmp_path: Path) -> set[str]:
    """Every name of a sample that /metrics may have."""
    names = set()
    for family in families(World(VirtualClock(), "normal", tmp_path).plane):
        if family.type == "histogram":
            names |= {f"{family.name}_{end}" for end in ("bucket", "count", "sum")}
        else:
            names.add(family.name + {"counter": "_total", "info": "_info"}.get(family.type, ""))
    return names


def test_every_query_asks_for_what_is_told(tmp_path: Path) -> None:
    known, rules = told(tmp_path), (RULES / "rules.yml").read_text(encoding="utf-8")
    variables = " ".join(one.get("definition", "") for one in board()["templating"]["list"])
    asked = [*(query for _, query in expressions()), rules, variables]
    unknown = {name for text in asked for name in NAME.findall(text)} - known
    assert not unknown
    recorded = set(RECORDED.findall(rules))
    assert {name for text in asked for name in re.findall(r"\bpdctl:[\w:]+", text)} <= recorded


def test_the_dashboard_is_whole() -> None:
    panels = board()["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    cells = [
        (x, y)
        for one in panels
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "panels overlap"
    assert max(x for x, _ in cells) < 24
    assert all('job=~"$job"' in query for _, query in expressions())


def test_every_alert_says_what_to_do() -> None:
    rules = (RULES / "rules.yml").read_text(encoding="utf-8")
    alerts = rules.split("- alert: ")[1:]
    assert alerts
    for alert in alerts:
        assert "severity: " in alert
        assert "summary: " in alert
        assert "runbook: " in alert


@needs_promtool
@pytest.mark.parametrize(
    "argv", [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]]
)
def test_prometheus_takes_the_rules(argv: list[str]) -> None:
    ran = subprocess.run(
        [str(promtool), *argv], cwd=RULES, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
def test_prometheus_finds_no_fault_with_our_names(tmp_path: Path) -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told(World(VirtualClock(), "normal", tmp_path)))
    ran = subprocess.run(
        [str(promtool), "check", "metrics"], input=generate_latest(registry), capture_output=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.decode(), ran.stderr.decode()) == (0, "", "")
