"""`pdctl goodput` against the real API."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Run

from pdctl.contract.goodput import GoodputPage

pytestmark = pytest.mark.usefixtures("url")


def test_goodput_says_how_many_met_it_and_why_the_rest_did_not(run: Run) -> None:
    ran = run("goodput", "--since-start")
    assert ran.code == 0
    assert "chat" in ran.out
    assert "mode:pd" in ran.out
    assert "%" in ran.out
    assert "GOODPUT" in ran.out
    assert "prefill" in ran.out
    assert "TTFT <= 500 ms, TPOT <= 50.0 ms" in ran.err
    assert "SIMULATED" in ran.err


def test_goodput_as_json(run: Run) -> None:
    page = GoodputPage.model_validate(run("goodput", "--by", "mode:pd", "--json").document)
    assert [(one.slo, one.by) for one in page.items] == [("chat", "mode:pd")]


def test_goodput_of_what_is_not_there_is_refused(run: Run) -> None:
    assert run("goodput", "--slo", "chatt").code == 1
    wrong = run("goodput", "--by", "pool:decod")
    assert wrong.code == 2
    assert 'Did you mean "decode"' in wrong.err
