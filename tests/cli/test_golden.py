"""`pdctl golden` against the real API over engines that answer as a test wants."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Live, Run
from tests.control.test_golden import Engines

from pdctl.contract.golden import GoldenPage, GoldenView
from pdctl.control.golden import GoldenChecks
from pdctl.domain.golden import Answer

pytestmark = pytest.mark.usefixtures("url")


def ask(live: Live, *answers: Answer) -> None:
    world = live.world
    engines = Engines(answers) if answers else Engines()  # type: ignore[arg-type]
    world.plane.golden = GoldenChecks(world.state, world.feed, world.clock, engines)


def test_equal_answers(run: Run, live: Live) -> None:
    ask(live)
    ran = run("golden", "--pair", "prefill-0>decode-0")
    assert ran.code == 0
    assert ran.out == "prefill-0 > decode-0: equal, all 2 tokens\n"
    assert len(GoldenPage.model_validate(run("golden", "--list", "--json").document).items) == 1


def test_a_difference_has_its_exit_code(run: Run, live: Live) -> None:
    ask(live, Answer("a", (1, 2)), Answer("b", (7, 2)))
    ran = run("golden", "--json")
    assert ran.code == 1
    assert GoldenView.model_validate(ran.document).differs_at == 0
    assert "DIFFERENT: token 1 of the answer differs" in run("golden", "--list").out


def test_half_a_pair_is_no_pair(run: Run) -> None:
    assert run("golden", "--pair", "prefill-0").code == 2
