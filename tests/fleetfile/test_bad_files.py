"""Each file in bad/ says at its end what it must be told: `# expect LINE:COLUMN severity: text`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdctl.fleetfile import FleetFileError, Mistake, inspect, load

BAD = sorted((Path(__file__).parent / "bad").glob("*.toml"))
EXPECT = re.compile(r"^# expect (\d+):(\d+) (error|warning): (.+)$", re.MULTILINE)


def matches(mistake: Mistake, expected: tuple[str, str, str, str]) -> bool:
    line, column, severity, said = expected
    place = (mistake.line, mistake.column, mistake.severity)
    return place == (int(line), int(column), severity) and said in str(mistake)


def shown(mistakes: tuple[Mistake, ...]) -> str:
    return "\n".join(f"{one.line}:{one.column} {one.severity}: {one}" for one in mistakes)


def test_there_are_enough_of_them() -> None:
    assert len(BAD) >= 30


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_file_is_told_what_is_wrong_and_where(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PDCTL_ADMIN_PORT", raising=False)
    expected = EXPECT.findall(path.read_text(encoding="utf-8"))
    assert expected
    spec, mistakes = inspect(path)
    for one in expected:
        assert any(matches(mistake, one) for mistake in mistakes), f"{one}\n{shown(mistakes)}"
    errors = [one for one in mistakes if one.severity == "error"]
    assert len(errors) == sum(one[2] == "error" for one in expected), shown(mistakes)
    assert (spec is None) == bool(errors)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_load_refuses_what_has_errors_and_takes_what_has_warnings(path: Path) -> None:
    if inspect(path)[0] is not None:
        assert load(path).pools
        return
    with pytest.raises(FleetFileError) as refused:
        load(path)
    first = refused.value.mistakes[0]
    assert f"{path}:{first.line}:{first.column}: " in str(refused.value)
