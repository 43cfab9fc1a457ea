"""Every value of every closed list has a word of its own; none is shown as an identifier."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pdctl.contract import steps
from pdctl.contract.resources import EventView
from pdctl.domain import pairing, rehearsal
from pdctl.domain.actions import Rung
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.verbs import by_field
from pdctl.routing import facts, router
from pdctl.seam import frames
from pdctl.web import present, words
from pdctl.web.told import tell

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LADDER = ("out_of_rotation", "back_in_rotation", *(rung.value for rung in Rung))


def event(kind: str, subject: str = "decode-0", **data: object) -> EventView:
    return EventView(seq=7, at=NOW, kind=kind, subject=subject, data=data)


def test_no_list_has_a_value_without_a_word() -> None:
    assert set(words.KINDS) == set(EventKind)
    assert set(words.RUNGS) == set(LADDER)
    assert set(by_field().values()) <= set(words.VERBS)
    reasons = {reason for reason, *_ in facts.BLOCKERS} | {"endpoint", *router.CONDITIONAL}
    assert reasons <= set(words.ROUTES)
    workers = {frames.WAITING, frames.LISTENING, frames.REPLACE, frames.DRAINING, frames.DONE}
    assert set(words.WORKERS) == workers | {"away"}
    assert set(present.PAIRS) == set(words.PAIR_WHY) == set(pairing.STATES)


def test_no_word_is_an_identifier() -> None:
    said = [
        *words.KINDS.values(), *words.VERBS.values(), *words.SOURCES.values(),
        *(steps.ACTIONS.get(kind, kind) for kind in rehearsal.KINDS),
        *words.ROUTES.values(), *words.PAIR_WHY.values(),
        *present.REASONS.values(), *present.PATHS.values(),
    ]  # fmt: skip
    for badges in (words.RUNGS, words.ENDS, words.WORKERS, present.PHASES, present.OUTCOMES):
        said += [one.word for one in badges.values()]
    assert [word for word in said if not word or "_" in word.replace("best_of", "")] == []


def test_a_value_of_a_newer_server_is_spelt_plainly() -> None:
    assert words.word(words.VERBS, "fold_up") == "fold up"
    assert words.badge(words.ENDS, "half_done").word == "Half done"
    told = tell(event("weather.changed", "fleet", message="rain"))
    assert (told.kind, told.why) == ("weather changed", "rain")
    newer = tell(event("instance.changed", phase="hovering", reason="wind_shear"))
    assert newer.said == "wind shear"


@pytest.mark.parametrize("rung", LADDER)
def test_every_rung_is_told_with_its_reason(rung: str) -> None:
    told = tell(event("instance.stop_rung", rung=rung, message="the pool shrinks"))
    assert told.badge is not None
    assert "_" not in told.badge.word
    assert (told.kind, told.why, told.instance) == ("Stop ladder", "the pool shrinks", "decode-0")


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("reason", list(Reason))
def test_every_phase_is_told_with_its_reason(phase: Phase, reason: Reason) -> None:
    told = tell(event("instance.changed", phase=phase.value, reason=reason.value, message="m"))
    assert (told.badge, told.said) == (present.PHASES[phase], present.REASONS[reason])


def test_other_facts_in_words() -> None:
    left = tell(event("instance.changed", phase=None, reason="desired"))
    assert left.badge is not None
    assert (left.badge.word, left.instance) == ("Left the fleet", "")
    pair = tell(event("pair.changed", "prefill-0>decode-0", state="ok", handoff_ms=14.2))
    assert (pair.subject, pair.said) == ("prefill-0 → decode-0", "handoff in 14 ms")
    asked = {"verb": "set_mode", "outcome": "done", "actor": "ada", "source": "tui"}
    verb = tell(event("operation", "fleet", **asked, before="pd", after="chunked"))
    assert (verb.kind, verb.said, verb.by) == (
        "Switch mode",
        "pd → chunked",
        "ada, terminal console",
    )
    notice = tell(event("notice", "fleet", level="error", message="the disk is full"))
    assert notice.badge is not None
    assert (notice.badge.word, notice.why) == ("Error", "the disk is full")
    mode = tell(event("fleet.changed", "fleet", mode="pd", revision=4))
    assert mode.said == "mode PD, revision 4"
