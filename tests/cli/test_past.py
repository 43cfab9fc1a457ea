"""`pdctl status --at` against the real API."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("url")


def test_now_is_refused_as_a_past_that_moves(run: Run) -> None:
    assert run("status", "--at", "10m", "--watch").code == 2


def test_a_moment_that_is_none_is_refused_with_what_would_be_one(run: Run) -> None:
    ran = run("status", "--at", "yesterday-ish")
    assert ran.code == 1
    assert ran.err
