"""`pdctl latency --compare` and `pdctl mark` against the real API."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Run

from pdctl.contract.compare import ComparePage, MarkPage

pytestmark = pytest.mark.usefixtures("url")


def test_two_modes_side_by_side_with_intervals(run: Run) -> None:
    ran = run("latency", "--compare", "mode:chunked@all", "--compare", "mode:pd@all")
    assert ran.code == 0
    assert "A: mode:chunked@all" in ran.out
    assert "p50" in ran.out
    assert "[" in ran.out
    assert "too few: 500 each are needed" in ran.out
    assert "95 % interval" in ran.err
    asked = ("latency", "--compare", "all", "--compare", "mode:pd", "--metric", "itl", "--json")
    page = ComparePage.model_validate(run(*asked).document)
    assert [one.metric for one in page.items] == ["itl", "itl"]
    assert "narrower" in page.note


def test_a_comparison_needs_two_sides(run: Run) -> None:
    assert run("latency", "--compare", "all").code == 2
    wrong = run("latency", "--compare", "all@nowhere", "--compare", "all")
    assert wrong.code == 1
    assert "no mark" in wrong.err


def test_a_time_in_the_past(run: Run) -> None:
    ran = run("latency", "--since", "24h", "--metric", "ttft")
    assert ran.code == 0
    assert " to " in ran.err
    assert run("latency", "--until", "1h").code == 2
    assert run("latency", "--since", "1h", "--window", "60").code == 2


def test_marks_come_and_go(run: Run) -> None:
    assert "No marks yet" in run("mark").err
    assert run("mark", "before-switch").code == 0
    assert "before-switch" in run("mark").out
    names = MarkPage.model_validate(run("mark", "--json").document).items
    assert [one.name for one in names] == ["before-switch"]
    assert run("mark", "--delete", "before-switch").code == 0
    assert run("mark", "--delete", "before-switch").code == 1
    assert run("mark", "--delete").code == 2
