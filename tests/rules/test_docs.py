"""The reference page knows every name that an operator can meet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdctl import plugins
from pdctl.cli.terminal import ExitCode
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Outcome
from pdctl.domain.handoff import Path as Way
from pdctl.domain.lifecycle import Phase
from pdctl.domain.signals.rules import RULES
from pdctl.fleetfile import keys, signals
from pdctl.routing.facts import BLOCKERS
from pdctl.routing.router import CONDITIONAL
from pdctl.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def names() -> list[str]:
    fleet_file = {key for section in keys.every().values() for key in section}
    settings = {f"PDCTL_{name.upper()}" for name in Settings.model_fields}
    reasons = {*(name for name, _, _ in BLOCKERS), *CONDITIONAL, *plugins.names(plugins.POLICIES)}
    enums = {str(one) for kind in (EventKind, Outcome, Phase, Way) for one in kind}
    settings |= {*RULES, *signals.rule_fields("share"), *signals.webhook_fields()}
    return sorted(fleet_file | settings | reasons | enums)


@pytest.mark.parametrize("name", names())
def test_reference_names(name: str) -> None:
    assert f"`{name}" in PAGE or f"[{name}" in PAGE or f"{name}`" in PAGE


def test_reference_names_every_exit_code() -> None:
    said = PAGE.split("## Exit codes")[1]
    assert all(str(code.value) in said for code in ExitCode)


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    asked = {line.split()[1] for line in readme.splitlines() if line.startswith("make ")}
    assert asked
    assert all(f"\n{target}:" in makefile for target in asked)


def test_contributing_names_the_plug_in_groups() -> None:
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for kind in (plugins.POLICIES, plugins.CONNECTORS, plugins.LAUNCHERS):
        assert kind.group in said
        assert kind.attribute in said


def test_every_promise_of_security_names_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    promises = text.partition("## Promises")[2].partition("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) > 10
    for row in rows[1:]:
        named = re.findall(r"`(tests/[\w/.]+)`", row.split("|")[2])
        assert named, row
        assert all((ROOT / one).exists() for one in named), row
