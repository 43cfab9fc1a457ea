"""Every rule says what it means and which knob to turn, and follows the fleet file."""

from __future__ import annotations

import re

import pytest

from pdctl.cli.main import app
from pdctl.domain.signals.rules import BOUNDS, RULES, Rule, Severity, in_force, written
from pdctl.domain.topology import SignalRuleSpec, SignalsSpec


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
def test_a_rule_says_all_that_an_operator_needs(rule: Rule) -> None:
    least, most = BOUNDS[rule.unit]
    assert least <= rule.threshold <= most
    assert 0 < rule.clear <= 1
    assert rule.keep_s >= 0
    assert all(text.strip().endswith(".") for text in (rule.means, rule.matters, rule.knob))
    assert rule.source
    assert "{" not in rule.turn("decode-0")


def test_every_line_that_a_knob_names_is_a_verb_that_there_is() -> None:
    import typer

    group = typer.main.get_command(app)
    verbs = set(group.commands)  # type: ignore[attr-defined]
    said = [verb for rule in RULES.values() for verb in re.findall(r"`pdctl ([a-z]+)", rule.knob)]
    assert said
    assert set(said) <= verbs


def test_the_fleet_file_changes_rules_and_switches_them_off() -> None:
    spec = SignalsSpec(
        rules=(
            SignalRuleSpec("kv_nearly_full", threshold=0.8, for_s=60, severity="critical"),
            SignalRuleSpec("orphans", enabled=False),
            SignalRuleSpec("of_a_newer_pdctl"),
        )
    )
    rules = in_force(spec)
    assert rules.keys() == RULES.keys() - {"orphans"}
    changed = rules["kv_nearly_full"]
    assert (changed.threshold, changed.for_s) == (0.8, 60)
    assert changed.severity is Severity.CRITICAL
    assert rules["stall"] == RULES["stall"]
    assert in_force(SignalsSpec(enabled=False)) == {}


def test_numbers_are_written_with_their_unit() -> None:
    assert [written(0.9512, "share"), written(14.4, "x"), written(12.0, "s")] == [
        "95.1 %", "14.4x", "12 s",
    ]  # fmt: skip
    assert written(None, "s") == "—"
