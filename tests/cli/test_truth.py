"""`pdctl truth` against the real API, and its one sentence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.cli.conftest import Run

from pdctl.cli.truth import verdict
from pdctl.contract.truth import TruthPage, TruthView

pytestmark = pytest.mark.usefixtures("url")


def page(**counts: float) -> TruthPage:
    fleet = TruthView.model_validate({"by": "all", **counts})
    return TruthPage(at=datetime(2026, 1, 2, tzinfo=UTC), window_s=60, fleet=fleet)


def test_truth_of_a_fleet_without_evidence_says_so(run: Run) -> None:
    ran = run("truth")
    assert ran.code == 0
    assert "RECOMPUTED" in ran.out
    assert "No handed-over request could be judged" in ran.err
    assert TruthPage.model_validate(run("truth", "--json").document).fleet.share is None


def test_the_sentence_names_what_is_wrong_first() -> None:
    assert "computed twice, silently (640 prompt" in verdict(
        page(moved=9, recomputed=1, recomputed_tokens=640, share=0.9)
    )
    assert "all 9 handed-over" in verdict(page(moved=8, cached=1, share=1.0))
