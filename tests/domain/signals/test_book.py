"""Pending, firing, resolved: what readings lead to, and what they must never lead to."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.signals.book import (
    GONE,
    MAX_GAP_S,
    OFF,
    WELL,
    Key,
    Reading,
    Signal,
    State,
    evaluate,
)
from pdctl.domain.signals.rules import RULES, Rule, Severity
from pdctl.domain.signals.silences import Silence, silenced

RULE = replace(RULES["kv_nearly_full"], threshold=10.0, clear=0.5, for_s=6.0, keep_s=4.0)
KEY = (RULE.name, "decode-0")


class Watch:
    """One subject under one rule, looked at again and again."""

    def __init__(self, rule: Rule = RULE) -> None:
        self.rules = {rule.name: rule}
        self.book: dict[Key, Signal] = {}
        self.now = 1000.0

    def see(self, *values: float | None, every: float = 2.0) -> list[State]:
        """Look at each value in turn; the states that were entered."""
        return [one.state for value in values for one in self.once(value, every)]

    def once(self, value: float | None, every: float = 2.0) -> tuple[Signal, ...]:
        """One look."""
        self.now += every
        readings = [Reading(*KEY, value, "as seen")]
        self.book, moved = evaluate(self.rules, readings, self.book, now=self.now, elapsed=every)
        return moved

    @property
    def one(self) -> Signal:
        """The signal."""
        return self.book[KEY]


def test_it_fires_when_it_was_wrong_for_long_enough() -> None:
    watch = Watch()
    assert watch.see(9, 10) == []
    assert watch.one.state is State.PENDING
    assert watch.see(11, 10) == []
    assert watch.see(12) == [State.FIRING]
    assert (watch.one.since, watch.one.fired_at) == (1004.0, 1010.0)
    assert (watch.one.value, watch.one.worst, watch.one.detail) == (12, 12, "as seen")
    assert watch.see(30, 11) == []
    assert (watch.one.value, watch.one.worst) == (11, 30)


def test_a_rule_without_a_wait_fires_at_once() -> None:
    assert Watch(replace(RULE, for_s=0)).see(10) == [State.FIRING]


def test_a_moment_of_health_begins_the_wait_anew() -> None:
    watch = Watch()
    assert watch.see(10, 10, 10, 9) == []
    assert watch.book == {}
    assert watch.see(10, 10, 10) == []
    assert watch.see(10) == [State.FIRING]


def test_it_is_resolved_after_a_while_of_health() -> None:
    watch = Watch()
    watch.see(10, 10, 10, 10)
    (last,) = [one for value in (4, 4, 4) for one in watch.once(value)]
    assert (last.state, last.ending, last.resolved_at) == (State.RESOLVED, WELL, watch.now)
    assert watch.book == {}


def test_what_swings_around_the_threshold_is_one_signal() -> None:
    watch = Watch()
    assert watch.see(10, 10, 10, 10) == [State.FIRING]
    assert watch.see(*[9, 6, 10, 4, 4, 12] * 10) == []
    assert watch.see(4, 4, 4) == [State.RESOLVED]


def test_what_is_not_known_neither_fires_nor_resolves() -> None:
    watch = Watch()
    assert watch.see(None) == []
    assert watch.book == {}
    watch.see(10, 10)
    assert watch.see(*[None] * 10) == []
    assert (watch.one.state, watch.one.known) == (State.PENDING, False)
    assert watch.see(10) == []  # the time in the dark does not count
    assert watch.see(10, 10) == [State.FIRING]
    seen = watch.one.seen_at
    assert watch.see(4, *[None] * 10) == []
    assert (watch.one.state, watch.one.known, watch.one.seen_at) == (State.FIRING, False, seen + 2)
    assert watch.see(4, 4, 4) == [State.RESOLVED]


def test_time_in_which_nobody_looked_counts_for_little() -> None:
    watch = Watch(replace(RULE, for_s=MAX_GAP_S + 1))
    assert watch.see(10) == []
    assert watch.see(10, every=36_000) == []
    assert watch.see(10) == [State.FIRING]


def test_what_is_gone_is_resolved_and_a_pending_one_forgotten() -> None:
    watch = Watch()
    watch.see(10, 10, 10, 10)
    book, (gone,) = evaluate(watch.rules, [], watch.book, now=1.0, elapsed=2.0)
    assert (book, gone.state, gone.ending) == ({}, State.RESOLVED, GONE)
    readings = [Reading(*KEY, 99)]
    book, (off,) = evaluate({}, readings, watch.book, now=1.0, elapsed=2.0)
    assert (book, off.ending) == ({}, OFF)
    watch = Watch()
    watch.see(10)
    assert evaluate(watch.rules, [], watch.book, now=1.0, elapsed=2.0) == ({}, ())


def test_severity_and_threshold_follow_the_fleet_file() -> None:
    watch = Watch()
    watch.see(10, 10, 10, 10)
    watch.rules = {RULE.name: replace(RULE, severity=Severity.CRITICAL, threshold=100.0)}
    assert watch.see(10) == []
    assert watch.one.severity is Severity.CRITICAL
    assert watch.see(10, 10) == [State.RESOLVED]


LOOKS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(0, 20)),
        st.floats(0.01, 60),
    ),
    max_size=60,
)


@given(LOOKS, st.floats(0, 60), st.floats(0, 60))
def test_nothing_fires_or_resolves_before_its_time(
    looks: list[tuple[float | None, float]], for_s: float, keep_s: float
) -> None:
    rule = replace(RULE, for_s=for_s, keep_s=keep_s)
    watch = Watch(rule)
    wrong = well = 0.0
    last: float | None = None
    for value, every in looks:
        before = watch.book.get(KEY)
        moved = watch.once(value, every)
        counted = min(every, MAX_GAP_S)
        if value is not None:
            wrong = wrong + counted * (last is not None) if value >= 10 else 0.0
            if before is None or (before.state is State.PENDING and value < 10):
                wrong = 0.0
            well = well + counted if value < 5 else 0.0
        for one in moved:
            assert value is not None
            if one.state is State.FIRING:
                assert value >= 10
                assert wrong >= for_s - 1e-6
            else:
                assert value < 5
                assert well >= keep_s - 1e-6
        if value is None:
            assert moved == ()
            assert (KEY in watch.book) == (before is not None)
        last = value


@given(LOOKS)
def test_the_book_holds_one_signal_that_is_not_over(
    looks: list[tuple[float | None, float]],
) -> None:
    watch, state = Watch(), State.RESOLVED
    for value, every in looks:
        for one in watch.once(value, every):
            assert one.state is not state  # firing and resolved take turns
            state = one.state
        held = watch.book.get(KEY)
        assert (held is not None and held.state is State.FIRING) == (state is State.FIRING)


def test_a_silence_holds_what_matches_until_it_ends() -> None:
    watch = Watch()
    watch.see(10)
    one = watch.one
    short = Silence("a", "kv_*", "decode-*", at=0, until=50, by="me")
    long = replace(short, id="b", until=90)
    other = replace(short, subject="prefill-*")
    assert silenced(one, [short, long, other], 10) == long
    assert silenced(one, [short, long, other], 60) == long
    assert silenced(one, [short, long, other], 90) is None
    assert silenced(one, [other], 10) is None
