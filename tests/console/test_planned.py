"""Plans and operations as lines: nothing is left out at any width, and nothing claimed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pdctl.contract.plans import (
    DipView,
    OperationStepView,
    OperationView,
    PlanView,
    RefusedView,
    RestView,
    StepView,
)
from pdctl.domain.topology import Mode
from pdctl_console import planned
from pdctl_console.styled import Line, text_of, width_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STEPS = [
    StepView(
        number=1, kind="drain", subject="decode-1", device="3", ports=[8001, 9001], streams=7,
        lease_s=10, starts_s=0, ends_s=12, samples=4, why="decode wants 1",
    ),
    StepView(number=2, kind="stop", subject="decode-1", starts_s=12, ends_s=None, samples=0),
    *(
        StepView(
            number=3 + at, kind="probe", subject=f"prefill-{at}>decode-2", starts_s=12, ends_s=13,
            samples=0,
        )
        for at in range(5)
    ),
]  # fmt: skip


def plan(**changes: object) -> PlanView:
    return PlanView.model_validate(
        {
            "id": "plan-1",
            "author": "a",
            "source": "tui",
            "created_at": NOW,
            "revision": 3,
            "digest": "d",
            "change": ["decode 2 -> 1"],
            "shape_before": "1p2d",
            "shape_after": "1p1d",
            "mode_before": Mode.PD,
            "mode_after": Mode.PD,
            "steps": STEPS,
            "capacity": [],
            "expected_s": 200.0,
            "refused": [],
            "risks": ["decode has no spare"],
            "lowest": [
                DipView(role="decode", before=2, lowest=1, after=2, at_s=3, for_s=61),
                DipView(role="prefill", before=0, lowest=0, after=0, at_s=0, for_s=0),
            ],
            **changes,
        }
    )


def told(lines: list[Line]) -> str:
    return " ".join(" ".join(text_of(line) for line in lines).split())


@pytest.mark.parametrize("width", [40, 72, 117, 118, 146])
def test_everything_is_said_at_every_width(width: int) -> None:
    lines = planned.plan_lines(plan(), width)
    assert max(map(width_of, lines)) <= width
    text = told(lines)
    for said in (
        "decode 2 -> 1", "1p2d → 1p1d", "device 3", "8001,9001", "7 open, KV lease 10 s",
        "12 s, seen 4x", "decode wants 1", "not known", "0-12", "12-?", "prefill-0>decode-2",
        "▲ risk decode has no spare",
    ):  # fmt: skip
        assert said in text or width == 40, said
    assert "Capacity: decode 2 → 2, and only 1 from +3.0 s on for 61 s" in text
    assert "prefill: 0" not in text
    assert "about 3 min 20 s (6 of 7 durations are assumed)" in text
    assert "3-7" in text, "five probes take one line"
    assert "prefill-1>decode-2" not in text


def test_refusals_and_what_moved_come_before_the_steps() -> None:
    why = RefusedView(code="no_room", message="no free device.", hint="Free one.")
    text = told(planned.plan_lines(plan(refused=[why], stale="decode-1 is gone"), 100))
    assert "✗ refused: no free device. Free one." in text
    assert "The fleet has moved since: decode-1 is gone. r plans it again." in text
    assert text.index("refused") < text.index("drain")


def test_an_operation_marks_what_was_seen_to_happen() -> None:
    steps = [
        OperationStepView(**step.model_dump(), done=step.number in (1, 3)) for step in STEPS
    ]  # fmt: skip
    one = OperationView(
        id="op-1", plan="plan-1", change=["decode 2 -> 1"], actor="ada", source="cli",
        state="running", message="decode-2 failed and is tried again", steps_done=2, steps_total=7,
        waiting_for=["stop decode-1"], revision=4, expected_s=200.0, started_at=NOW, steps=steps,
    )  # fmt: skip
    text = told(planned.operation_lines(one, NOW + timedelta(seconds=30), 130))
    for said in (
        "◑ running", "2 of 7 steps, 30 s of about 3 min 20 s", "op-1, by ada (cli)", "tried again",
        "to come stop decode-1, and 4 more", "● 1 0-12", "○ 2 12-?", "◑ 3-7",
    ):  # fmt: skip
        assert said in text, said
    ended = one.model_copy(update={"state": "failed", "ended_at": NOW + timedelta(seconds=5)})
    text = told(planned.operation_lines(ended, NOW + timedelta(days=1), 60))
    assert "✗ failed" in text
    assert "took 5.0 s" in text


def test_what_was_not_rehearsed_is_counted_and_never_claimed() -> None:
    rest = RestView(left={"decode": 7}, total=9, seen_s=90, at_least=True, words="7 of decode")
    folded = plan(rest=rest)
    said = [text_of(line) for line in planned.plan_lines(folded, 100)]
    assert said[-1] == "… 7 of decode"
    assert planned.expected(folded).startswith("at least ")
    assert "not rehearsed after 90 s" in planned.expected(folded)
    one = OperationView(
        id="op-1", plan="plan-1", change=["x"], actor="a", source="tui", state="running",
        steps_done=3, steps_total=3, revision=4, expected_s=90, started_at=NOW, rest=rest,
        instances_done=2,
    )  # fmt: skip
    assert any(
        "2 of 9 instances" in text_of(line) for line in planned.operation_lines(one, NOW, 90)
    )
