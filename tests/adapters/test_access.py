"""The access file and its sessions: read anew, survive restarts, end when they should."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.fakes import people
from tests.fakes.clock import VirtualClock
from tests.fakes.people import NAMES, PASSWORD, TOKEN, access

from pdctl.adapters.access import SESSION_S, AccessFile, open_access, write_private
from pdctl.domain.access import Role, Signed, Unsigned
from pdctl.domain.errors import InternalError


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def begun(one: AccessFile, name: str = "ada") -> Signed:
    found = await one.sign_in(name, PASSWORD, "127.0.0.1")
    assert isinstance(found, Signed), found
    return found


async def test_a_password_begins_a_session_of_its_role(tmp_path: Path, clock: VirtualClock) -> None:
    book = access(tmp_path, clock)
    for role, name in NAMES.items():
        session = await begun(book, name)
        who = book.known(session.token)
        assert who is not None
        assert (who.name, who.role, who.kind) == (name, role, "user")
    assert book.known(TOKEN) is not None
    assert book.known("") is None
    assert book.known("pdctl-session-made-up") is None


@pytest.mark.parametrize(("name", "word"), [("ada", "wrong"), ("nobody", PASSWORD), ("ada", "")])
async def test_what_is_wrong_begins_none(
    tmp_path: Path, clock: VirtualClock, name: str, word: str
) -> None:
    found = await access(tmp_path, clock).sign_in(name, word, "127.0.0.1")
    assert found == Unsigned(known=name == "ada")


async def test_a_sixth_try_has_to_wait_and_is_not_looked_at(
    tmp_path: Path, clock: VirtualClock
) -> None:
    book = access(tmp_path, clock)
    for _ in range(5):
        assert await book.sign_in("ada", "wrong", "10.0.0.1") == Unsigned(known=True)
    held = await book.sign_in("ada", PASSWORD, "10.0.0.1")
    assert isinstance(held, Unsigned)
    assert held.wait_s == 2.0
    assert isinstance(await book.sign_in("ada", PASSWORD, "10.0.0.2"), Signed)
    await clock.advance(2.0)
    assert isinstance(await book.sign_in("ada", PASSWORD, "10.0.0.1"), Signed)


async def test_a_session_outlives_a_restart_and_ends_in_time(
    tmp_path: Path, clock: VirtualClock
) -> None:
    session = await begun(access(tmp_path, clock))
    kept = tmp_path / "sessions.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert session.token not in kept.read_text()
    again = access(tmp_path, clock)
    assert again.known(session.token) is not None
    await clock.advance(SESSION_S)
    assert again.known(session.token) is None


async def test_it_ends_by_signing_out_by_another_password_and_with_its_user(
    tmp_path: Path, clock: VirtualClock
) -> None:
    book = access(tmp_path, clock)
    one, two = await begun(book), await begun(book, "otto")
    assert book.sign_out(one.token)
    assert not book.sign_out(one.token)
    assert book.known(one.token) is None
    assert access(tmp_path, clock).known(one.token) is None
    assert book.known(two.token) is not None

    write_private(tmp_path / "access.toml", people.text({Role.ADMIN: "ada"}))
    await clock.advance(2.0)
    assert book.known(two.token) is None


async def test_a_changed_role_counts_at_once(tmp_path: Path, clock: VirtualClock) -> None:
    book = access(tmp_path, clock)
    session = await begun(book, "ada")
    write_private(tmp_path / "access.toml", people.text({Role.VIEWER: "ada"}))
    await clock.advance(2.0)
    who = book.known(session.token)
    assert who is not None
    assert who.role is Role.VIEWER


async def test_a_broken_file_leaves_what_was_read(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    book = access(tmp_path, clock)
    session = await begun(book)
    (tmp_path / "access.toml").write_text("[users")
    await clock.advance(2.0)
    assert book.known(session.token) is not None
    assert "what was read last counts" in caplog.text
    (tmp_path / "access.toml").unlink()
    await clock.advance(2.0)
    assert book.known(session.token) is not None


async def test_half_written_sessions_only_ask_people_to_sign_in_again(
    tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "sessions.json").write_text('{"a": ["ada"')
    assert await begun(access(tmp_path, clock))
    (tmp_path / "sessions.json").write_text('{"a": ["ada"]}')
    assert await begun(access(tmp_path, clock))


def test_without_a_usable_file_nothing_is_opened(tmp_path: Path, clock: VirtualClock) -> None:
    assert open_access(None, tmp_path, clock) is None
    with pytest.raises(InternalError, match="cannot be used"):
        open_access(tmp_path / "nothing.toml", tmp_path, clock)
