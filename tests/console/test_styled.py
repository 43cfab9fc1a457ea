"""Hostile text stays text, lines fit their cells, and values are written with their units."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pdctl.domain.handoff import Outcome
from pdctl.domain.lifecycle import Phase
from pdctl_console import format as fmt
from pdctl_console.styled import (
    LONGEST,
    Line,
    clean,
    content,
    cut,
    fit,
    plain,
    text_of,
    told,
    width_of,
    wrap,
)

HOSTILE = [
    "[bold]id[/bold]", "[/]", "[$error]", "[@click=app.quit]x[/]", "[" * 500,
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x9b31m", "a\rb\nc\x00d\x7f",
    "\u202eevil\u202c", "\ud800", "😀 漢字 שלום", "e\u0301\u200d\ufeff",
]  # fmt: skip
LINES = st.lists(
    st.tuples(st.text(st.sampled_from("ab 漢é😀[]")), st.sampled_from(["", "bad"]))
).map(tuple)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_reaches_the_terminal_but_text(text: str) -> None:
    safe = clean(text)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in safe)
    assert not set(safe) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069")
    safe.encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_is_markup(text: str) -> None:
    shown = content([told(text, "bad"), plain(text)])
    assert shown.plain == f"{clean(text)}\n{clean(text)}"
    assert {str(span.style) for span in shown.spans} <= {"$text-error", ""}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mERROR\x1b[0m x", "ERROR x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\tb", "a   b"),
        ("a\nb", "a⏎b"),
        ("a\x00b\x1b", "a␀b␛"),
        ("[b]x[/b]", "[b]x[/b]"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_very_long_line_says_how_much_was_cut() -> None:
    assert clean("x" * (LONGEST + 7)).endswith("x… (7 more characters)")


@settings(max_examples=80, deadline=None)
@given(LINES, st.integers(1, 30))
def test_fit_is_exact(line: Line, width: int) -> None:
    assert width_of(fit(line, width)) == width
    assert width_of(cut(line, width)) <= width


@settings(max_examples=80, deadline=None)
@given(LINES, st.integers(8, 30))
def test_wrap_loses_no_word(line: Line, width: int) -> None:
    rows = wrap(line, width)
    assert all(width_of(row) <= width for row in rows)
    kept = "".join(text_of(row) for row in rows).replace(" ", "")
    assert kept == text_of(line).replace(" ", "")


def test_wrap_breaks_at_spaces_and_keeps_roles() -> None:
    rows = wrap((("alpha beta ", ""), ("gamma delta", "bad")), 12)
    assert [text_of(row) for row in rows] == ["alpha beta", "  gamma", "  delta"]
    assert rows[2] == (("  ", ""), ("delta", "bad"))


def test_a_wide_character_is_never_halved() -> None:
    assert text_of(fit(plain("漢字漢字"), 6)) == "漢字… "
    assert cell_len(text_of(fit(plain("漢字漢字"), 6))) == 6


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "—"), (float("nan"), "—"), (0.0, "0.00 ms"), (1.234, "1.23 ms"), (9.999, "10.0 ms"),
        (12.34, "12.3 ms"), (99.99, "100 ms"), (1207.4, "1207 ms"), (12_345.0, "12.3 s"),
    ],
)  # fmt: skip
def test_ms(value: float | None, shown: str) -> None:
    assert fmt.ms(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "—"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 1024**3, "3.0 GiB")],
)
def test_size(value: float | None, shown: str) -> None:
    assert fmt.size(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0s"), (0, "0s"), (89, "89s"), (90, "1m"), (5400, "1h"), (2e5, "2d")],
)
def test_age(seconds: float, shown: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert fmt.age(now - timedelta(seconds=seconds), now) == shown


def test_unknown_is_never_zero() -> None:
    assert {fmt.count(None), fmt.percent(None), fmt.rate(None), fmt.bare_ms(None)} == {"—"}
    assert (fmt.count(12345), fmt.percent(0.335), fmt.rate(1234.4)) == (
        "12\u202f345",
        "34 %",
        "1\u202f234/s",
    )


def test_every_state_has_a_sign_and_a_word() -> None:
    assert set(fmt.PHASES) == set(Phase)
    assert set(fmt.OUTCOMES) == set(Outcome)
    assert fmt.phase(Phase.READY) == ("● ready", "ok")
    assert fmt.outcome(Outcome.TIMEOUT) == ("✗ timeout", "bad")


@pytest.mark.parametrize(
    ("share", "drawn"), [(-1, "╌╌╌╌"), (0.5, "━━╌╌"), (1, "━━━━"), (7, "━━━━")]
)
def test_bar(share: float, drawn: str) -> None:
    assert fmt.bar(share, 4) == drawn
