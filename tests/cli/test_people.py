"""`pdctl users` and `pdctl tokens`: the access file from a shell, with or without a server."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from pdctl.cli.people import _password
from pdctl.cli.terminal import ExitCode, Stop
from pdctl.domain.access import digest, parse

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PDCTL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state" / "access.toml"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))


@pytest.mark.usefixtures("typed")
def test_a_user_is_added_changed_and_taken_out(run: Run, file: Path) -> None:
    ran = run("users", "add", "alice", "--role", "operator", "--stdin")
    assert ran.code == 0, ran.err
    assert "alice may sign in as operator." in ran.err
    assert "asks everybody to sign in" in ran.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PASSWORD not in file.read_text()
    assert parse(file.read_text()).users["alice"].role == "operator"

    assert run("users", "role", "alice", "admin").code == 0
    listed = run("users", "list", "--json").document
    assert listed["items"] == [{"name": "alice", "role": "admin"}]
    assert "alice" in run("users", "list").out

    gone = run("users", "remove", "alice", "--json")
    assert gone.document["removed"] == "alice"
    assert parse(file.read_text()).users == {}


def test_a_token_is_shown_once(run: Run, file: Path) -> None:
    ran = run("tokens", "add", "ci", "--role", "operator", "--days", 30)
    token = ran.out.strip()
    assert digest(token) in file.read_text()
    assert token not in file.read_text() + ran.err
    assert parse(file.read_text()).tokens[digest(token)].expires is not None
    (listed,) = run("tokens", "list", "--json").document["items"]
    assert (listed["name"], listed["role"]) == ("ci", "operator")
    assert run("tokens", "remove", "ci").code == 0
    assert parse(file.read_text()).tokens == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("users", "add", "a b", "--stdin"), "cannot be a name"),
        (("users", "add", "bob", "--role", "root", "--stdin"), "known: viewer, operator, admin"),
        (("users", "remove", "bob"), "There is no bob in users. Known: none."),
        (("users", "role", "bob", "admin"), "There is no bob"),
        (("users", "passwd", "bob", "--stdin"), "There is no bob"),
        (("tokens", "remove", "ci"), "There is no ci in tokens"),
    ],
)
@pytest.mark.usefixtures("typed")
def test_mistakes_are_named_and_change_nothing(
    run: Run, file: Path, words: tuple[str, ...], said: str
) -> None:
    ran = run(*words)
    assert ran.code == ExitCode.USAGE
    assert said in ran.err
    assert not file.exists()


def test_a_short_password_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    ran = run("users", "add", "alice", "--stdin")
    assert ran.code == ExitCode.USAGE
    assert "10 characters at least" in ran.err
    assert not file.exists()


def test_a_person_types_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert _password("alice", from_stdin=False, ask=lambda _: PASSWORD) == PASSWORD
    answers = iter([PASSWORD, "something else"])
    with pytest.raises(Stop, match="not the same"):
        _password("alice", from_stdin=False, ask=lambda _: next(answers))


@pytest.mark.usefixtures("typed")
def test_a_file_that_is_none_is_left_alone(run: Run, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("[users\n")
    ran = run("users", "add", "alice", "--stdin")
    assert ran.code == ExitCode.USAGE
    assert "is no access file" in ran.err
    assert file.read_text() == "[users\n"
