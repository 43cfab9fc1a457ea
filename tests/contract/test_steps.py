"""The steps of a plan in words: nothing is lost when probes fold, and nothing is left blank."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.contract import steps
from pdctl.contract.plans import DipView, StepView
from pdctl.domain import rehearsal

STEPS = st.lists(
    st.builds(
        StepView, number=st.just(1), kind=st.sampled_from(["probe", "launch", "drain", "ready"]),
        subject=st.just("x"), starts_s=st.floats(0, 1e4), ends_s=st.none() | st.floats(1e4, 2e4),
        samples=st.none() | st.integers(0, 9), streams=st.integers(0, 3),
    ),
    max_size=30,
)  # fmt: skip


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_rows_fold_only_probes_and_lose_nothing(found: list[StepView]) -> None:
    rows = steps.rows(found)
    assert [one for row in rows for one in row.steps] == found
    assert [row.kind for row in rows if row.kind != "probe"] == [
        one.kind for one in found if one.kind != "probe"
    ]
    assert all(len(row.steps) in (1, *range(steps.FOLD, 31)) for row in rows)
    assert all((row.streams != "") == (row.kind == "drain") for row in rows)


def test_only_known_kinds_have_words_of_their_own() -> None:
    assert set(steps.ACTIONS) <= set(rehearsal.KINDS)


def test_a_dip_names_its_lowest_point() -> None:
    dip = DipView(role="decode", before=2, lowest=1, after=3, at_s=4, for_s=12)
    still = DipView(role="serving", before=2, lowest=2, after=2, at_s=0, for_s=0)
    said = steps.capacity(type("Plan", (), {"lowest": [dip, still]})())
    assert said == ["decode 2 → 3, and only 1 from +4.0 s on for 12 s", "any role 2 all along"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"), (0.04, "< 0.1 s"),
        (0.44, "0.4 s"), (9.96, "10 s"), (119, "119 s"), (120, "2 min"),
        (200, "3 min 20 s"), (7300, "2 h 1 min"),
    ],
)  # fmt: skip
def test_spans(seconds: float, said: str) -> None:
    assert steps.span(seconds) == said
