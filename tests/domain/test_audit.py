"""The operations log reads what verbs say of themselves."""

from __future__ import annotations

import pytest

from pdctl.domain.audit import AuditQuery, entry_of, matches, named_by, verb_of
from pdctl.domain.change import Change, parse
from pdctl.domain.events import Event, EventKind
from pdctl.domain.ids import Seq
from tests.fakes.fleets import fleet


@pytest.mark.parametrize(
    ("change", "verb", "names"),
    [
        (parse(["decode=2"]), "resize", ("decode",)),
        (parse(["mode=chunked"]), "set_mode", ()),
        (parse(["decode=2", "mode=chunked"]), "apply", ("decode",)),
        (Change(fleet=fleet()), "set_fleet", ()),
        (Change(drain=("decode-1",)), "drain", ("decode-1",)),
        (Change(undrain=("decode-1",)), "undrain", ("decode-1",)),
        (Change(stop=("decode-1", "decode-1")), "stop", ("decode-1",)),
        (Change(move=(("decode-0", "prefill"),)), "move", ("decode-0", "prefill")),
        (Change(restart=("decode",)), "restart", ("decode",)),
        (Change(), "apply", ()),
    ],
)
def test_a_change_is_called_what_an_operator_calls_it(
    change: Change, verb: str, names: tuple[str, ...]
) -> None:
    assert verb_of(change) == verb
    assert named_by(change) == names


def test_an_entry_is_what_its_event_says() -> None:
    data = {"verb": "drain", "actor": "ada", "about": ["decode-1"], "steps_done": 3, "plan": None}
    entry = entry_of(Event(Seq(7), 5.0, EventKind.OPERATION, "fleet", data))
    assert entry is not None
    assert (entry.seq, entry.verb, entry.actor, entry.plan) == (7, "drain", "ada", "")
    assert entry.details == {"steps_done": 3}
    assert matches(entry, AuditQuery(subject="decode-1"))
    assert matches(entry, AuditQuery(subject="fleet", verb="drain", after=6, before=8))
    assert matches(entry, AuditQuery(text="DECODE-"))
    assert not matches(entry, AuditQuery(text="actor"))
    assert not matches(entry, AuditQuery(after=7))
    assert not matches(entry, AuditQuery(before=7))
    assert not matches(entry, AuditQuery(subject="decode"))
    assert entry_of(Event(Seq(8), 5.0, EventKind.NOTICE, "fleet", data)) is None
