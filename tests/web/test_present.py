"""Values are said with units, unknown is a dash, and no state speaks by colour alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pdctl.contract.asks import elsewhere
from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.web import present

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "—"), (0, "0 ms"), (0.42, "0.42 ms"), (4.24, "4.2 ms"), (412.3, "412 ms"),
        (999.4, "999 ms"), (999.6, "1.00 s"), (1240, "1.24 s"), (12_300, "12.3 s"),
        (125_000, "2 min 5 s"),
    ],
)  # fmt: skip
def test_milliseconds(value: float | None, said: str) -> None:
    assert present.ms(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "—"), (-3, "0 s"), (0, "0 s"), (59.9, "59 s"), (60, "1 min"), (185, "3 min 5 s"),
        (7_800, "2 h 10 min"), (273_600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_spans(value: float | None, said: str) -> None:
    assert present.span(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "—"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4_700_000, "4.5 MiB"),
     (2**40, "1.0 TiB")],
)  # fmt: skip
def test_sizes(value: float | None, said: str) -> None:
    assert present.size(value) == said


def test_shares_rates_and_counts() -> None:
    assert [present.percent(x) for x in (None, 0, 0.034, 0.42, 1)] == [
        "—", "0 %", "3.4 %", "42 %", "100 %"
    ]  # fmt: skip
    assert [present.rate(x) for x in (None, 0, 3.14, 1234.5)] == [
        "—", "0 tok/s", "3.1 tok/s", "1,234 tok/s"
    ]  # fmt: skip
    assert present.count(1234567) == "1,234,567"


def test_moments() -> None:
    assert present.iso(NOW) == "2026-11-30T12:00:00.123Z"
    assert present.clock(NOW) == "12:00:00.123"
    assert present.age(NOW - timedelta(seconds=75), NOW) == "1 min 15 s"
    assert present.age(None, NOW) == "—"


def test_every_state_has_its_own_glyph_and_a_word() -> None:
    assert set(present.PHASES) == set(Phase)
    assert set(present.REASONS) == set(Reason)
    assert set(present.OUTCOMES) == set(Outcome)
    assert set(present.PATHS) == set(present.PATH_TITLES) == set(Path)
    badges = [(badge.glyph, badge.word) for badge in present.PHASES.values()]
    assert len({glyph for glyph, _ in badges}) == len(badges)
    assert all(word for _, word in badges)
    assert present.pair_badge("quarantined").word == "Quarantined"


def test_log_lines() -> None:
    assert present.plain("\x1b[1;31mred\x1b[0m") == "red"
    lines = ("ERROR 11-30 boom", "WARNING x", "INFO ok", "Traceback (most recent call last):")
    assert [present.level(line) for line in lines] == ["bad", "warn", "", "bad"]


def test_a_command_can_be_typed_as_it_is_shown() -> None:
    argv = ["/opt/py", "-m", "x", "--kv", '{"a": "b c"}', "--flag", "--port", "1"]
    shown = present.shell_lines(argv)
    assert shown.splitlines()[0] == "/opt/py -m x \\"
    assert len(shown.splitlines()) == 4
    import shlex

    assert shlex.split(shown.replace("\\\n", " ")) == argv


def test_a_command_names_the_server_unless_it_is_the_usual_one() -> None:
    assert elsewhere("http://127.0.0.1:8080") == []
    assert elsewhere("http://localhost:8080") == []
    assert elsewhere("http://127.0.0.1:8081") == ["--url", "http://127.0.0.1:8081"]
