"""`pdctl login` and `pdctl logout`: a session for one address, kept for its owner alone."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Live, Run
from tests.fakes.people import PASSWORD, TOKEN

from pdctl.cli import kept
from pdctl.cli.terminal import ExitCode


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with Live("normal", tmp_path / "world", users=True) as live:
        yield live


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{text}\n"))


def test_a_session_is_kept_used_and_ended(
    live: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("status", "--url", live.url).code == ExitCode.DENIED
    type_in(monkeypatch, PASSWORD)
    ran = run("login", "otto", "--url", live.url)
    assert ran.code == 0, ran.err
    assert f"You are otto (operator) for {live.url}." in ran.err
    assert stat.S_IMODE(kept.file().stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.file().parent.stat().st_mode) == 0o700
    assert PASSWORD not in kept.file().read_text()
    assert run("mode", "chunked", "--url", live.url + "/").code == 0
    entries = run("audit", "--verb", "set_mode", "--json", "--url", live.url).document["items"]
    assert [(one["actor"], one["source"]) for one in entries] == [("otto", "cli")]

    token = kept.token_of(live.url)
    assert run("logout", "--url", live.url).code == 0
    assert kept.token_of(live.url) is None
    assert run("status", "--url", live.url).code == ExitCode.DENIED
    monkeypatch.setenv("PDCTL_TOKEN", token or "")
    assert run("status", "--url", live.url).code == ExitCode.DENIED, "the session itself has ended"
    assert "not signed in" in run("logout", "--url", live.url).err


def test_a_token_is_kept_and_one_that_is_given_wins(
    live: Live, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, TOKEN)
    ran = run("login", "--json", "--url", live.url)
    assert (ran.document["name"], ran.document["role"]) == ("ci", "operator")
    assert TOKEN not in ran.out + ran.err
    assert run("mode", "--url", live.url).code == 0
    monkeypatch.setenv("PDCTL_TOKEN", "another")
    assert run("mode", "--url", live.url).code == ExitCode.DENIED


@pytest.mark.parametrize(
    ("words", "given", "code"),
    [
        (("otto",), "wrong password", ExitCode.DENIED),
        ((), "no token", ExitCode.DENIED),
        (("otto",), "", ExitCode.USAGE),
    ],
)
def test_what_is_wrong_is_not_kept(
    live: Live,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: tuple[str, ...],
    given: str,
    code: ExitCode,
) -> None:
    type_in(monkeypatch, given)
    ran = run("login", *words, "--url", live.url)
    assert ran.code == code
    assert ran.err
    assert not kept.file().exists()


def test_tokens_that_others_may_read_are_not_used(run: Run) -> None:
    kept.keep("http://127.0.0.1:1", "secret")
    kept.file().chmod(0o644)
    ran = run("status", "--url", "http://127.0.0.1:1")
    assert ran.code == ExitCode.USAGE
    assert f"chmod 600 {kept.file()}" in ran.err
    kept.file().chmod(0o600)
    kept.file().write_text("[]")
    assert "is no file of `pdctl login`" in run("status", "--url", "http://127.0.0.1:1").err
