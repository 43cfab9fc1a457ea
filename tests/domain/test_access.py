"""Roles, the access file, and patience with wrong passwords."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.access import (
    AccessError,
    Patience,
    Role,
    Throttle,
    digest,
    parse,
)
from pdctl.domain.verbs import needed

HASH = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA"
WHOLE = f"""
[users.alice]
role = "admin"
password = "{HASH}"
[tokens.ci]
role = "operator"
sha256 = "{digest("secret")}"
expires = 2030-01-01T00:00:00Z
"""


def test_roles_are_ordered() -> None:
    ranks = list(Role)
    for have in Role:
        assert [one for one in Role if have.covers(one)] == ranks[: ranks.index(have) + 1]


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/api/v1/fleet", Role.VIEWER),
        ("HEAD", "/metrics", Role.VIEWER),
        ("DELETE", "/api/v1/session", Role.VIEWER),
        ("PUT", "/api/v1/mode", Role.OPERATOR),
        ("POST", "/api/v1/plans", Role.OPERATOR),
        ("PATCH", "/api/v1/router", Role.OPERATOR),
        ("POST", "/api/v1/made-up", Role.ADMIN),
        ("PUT", "/api/v1/fleet", Role.ADMIN),
        ("PUT", "/api/v1/fleet/", Role.ADMIN),
        ("POST", "/api/v1/mode", Role.ADMIN),
        ("POST", "/api/v1/detach", Role.ADMIN),
        ("POST", "/api/v1/orphans/12-34/kill", Role.ADMIN),
    ],
)
def test_what_each_request_takes(method: str, path: str, role: Role) -> None:
    assert needed(method, path) is role


def test_a_file_is_read() -> None:
    book = parse(WHOLE)
    assert book.users["alice"].role is Role.ADMIN
    shown = book.token("secret", 0.0)
    assert shown is not None
    assert (shown.name, shown.role, shown.kind) == ("ci", Role.OPERATOR, "token")
    assert book.token("other", 0.0) is None
    assert book.token("secret", 1893456000.0) is None  # 2030


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[users", "not valid TOML"),
        ("[people.alice]", "unknown part 'people'; known: users, tokens"),
        ("users = 3", "users must be tables"),
        ("[users.'a b']", "'a b' cannot be a name"),
        ("[users]\nalice = 3", "users.alice must be a table"),
        (f'[users.alice]\nrole = "root"\npassword = "{HASH}"', "viewer, operator, admin"),
        ('[users.alice]\nrole = "admin"\npassword = "plain"', "as `pdctl users add` writes it"),
        (f'[users.a]\nrole = "admin"\npassword = "{HASH}"\nx = 1', "unknown entry 'x'"),
        ('[tokens.ci]\nrole = "admin"\nsha256 = "short"', "64 lower-case hexadecimal"),
        (
            f'[tokens.ci]\nrole = "admin"\nsha256 = "{digest("a")}"\nexpires = 2030-01-01T00:00:00',
            "a time with a zone",
        ),
        (
            "".join(
                f'[tokens.{name}]\nrole = "viewer"\nsha256 = "{digest("a")}"\n' for name in "ab"
            ),
            "token of another name too",
        ),
    ],
)
def test_a_file_that_makes_no_sense_says_where(text: str, said: str) -> None:
    with pytest.raises(AccessError, match=said.replace("(", r"\(")):
        parse(text)


@given(st.text(max_size=300))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with contextlib.suppress(AccessError):
        assert parse(text).users == {}  # no text without a password's hash has one


def test_five_tries_are_free_and_then_pauses_double() -> None:
    patience, now = Patience(5), 100.0
    for _ in range(5):
        assert patience.wait_s("eve", now) == 0.0
        patience.failed("eve", now)
    waits = []
    for _ in range(12):
        wait = patience.wait_s("eve", now)
        waits.append(wait)
        now += wait
        assert patience.wait_s("eve", now) == 0.0
        patience.failed("eve", now)
    assert waits[:3] == [2.0, 4.0, 8.0]
    assert waits[-1] == 300.0
    patience.worked("eve")
    assert patience.wait_s("eve", now) == 0.0


def test_patience_is_bounded_and_forgets_the_oldest() -> None:
    patience = Patience(1, most=3)
    for who in "abcd":
        patience.failed(who, 0.0)
    assert [patience.wait_s(who, 0.0) > 0 for who in "abcd"] == [False, True, True, True]


def test_trying_a_name_from_afar_does_not_lock_it_out() -> None:
    throttle = Throttle()
    for address in range(1000):
        throttle.failed("alice", f"10.0.{address // 256}.{address % 256}", 0.0)
    assert 0 < throttle.wait_s("alice", "192.0.2.1", 0.0) <= 10.0
    assert throttle.wait_s("alice", "192.0.2.1", 10.0) == 0.0


def test_many_names_from_one_address_are_slowed() -> None:
    throttle = Throttle()
    for name in range(20):
        throttle.failed(f"user{name}", "192.0.2.1", 0.0)
    assert throttle.wait_s("another", "192.0.2.1", 0.0) > 0
    assert throttle.wait_s("another", "192.0.2.2", 0.0) == 0.0
