"""Who may use the admin API, and for what: users with passwords, tokens for programs, three roles.

Roles are ordered: an operator may all that a viewer may, an administrator everything. A fleet file
names programs to execute, so who may apply one may run anything: that takes an administrator.
What each verb takes is in `domain.verbs`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pdctl.domain.topology import FleetSpec

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
TOKEN_PREFIX = "pdctl-admin-"  # noqa: S105 - what a token begins with, so that a leak is known
_DIGEST = re.compile(r"[0-9a-f]{64}")
SESSION_PATH = "/api/v1/session"


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    """Look at everything, change nothing."""
    OPERATOR = "operator"
    """Every verb on the fleet that is there: resize, drain, mode, restart, undo of these."""
    ADMIN = "admin"
    """Fleet files, foreign processes, and pdctl itself as well."""

    def covers(self, other: Role) -> bool:
        """Whether this role may do what `other` may."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, once that is known."""

    name: str
    role: Role
    kind: str
    """user | token | loopback | anonymous"""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who signs in with a password."""

    name: str
    role: Role
    password: str
    """As argon2 encodes it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a program shows. Made of 256 drawn bits: its SHA-256 is enough to keep."""

    name: str
    role: Role
    sha256: str
    expires: float | None = None
    """Wall time, UTC seconds; None: never."""


@dataclass(frozen=True, slots=True)
class Book:
    """Everybody who is known."""

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    """By digest."""

    def token(self, shown: str, now: float) -> Principal | None:
        """Whose token was shown; None when nobody's, or when it has expired."""
        found = self.tokens.get(digest(shown))
        if found is None or (found.expires is not None and found.expires <= now):
            return None
        return Principal(found.name, found.role, "token")


@dataclass(frozen=True, slots=True)
class Signed:
    """A session that has begun."""

    token: str
    """Shown with every request from now on."""
    who: Principal
    until: float
    """Wall time, UTC seconds."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """Not signed in; which of name and password was wrong is nobody's business."""

    wait_s: float = 0.0
    """Before it may be tried again, where it was not even looked at."""
    known: bool = False
    """Whether the name is somebody's: for the log, never for who asked."""


class AccessError(ValueError):
    """The text is no access file, in one sentence."""


def digest(secret: str) -> str:
    """What is kept of a token or of a session."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def fingerprint(user: User) -> str:
    """Changes with the password: sessions begun with an older one end."""
    return digest(user.password)[:16]


def new_program(before: FleetSpec, after: FleetSpec) -> bool:
    """Whether engines would be executed otherwise than now: another program, model or setting."""
    return _programs(before) != _programs(after)


def _programs(fleet: FleetSpec) -> tuple[Any, ...]:
    pools = {pool.name: (pool.args, pool.env) for pool in fleet.pools}
    return fleet.engine, fleet.model, fleet.connector, pools


def parse(text: str) -> Book:
    """The users and tokens of an access file; AccessError when any of it cannot be understood."""
    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise AccessError(f"it is not valid TOML: {error}") from None
    if unknown := [name for name in tables if name not in ("users", "tokens")]:
        raise AccessError(f"it has an unknown part {unknown[0]!r}; known: users, tokens")
    users = [_user(name, given) for name, given in _tables(tables, "users")]
    tokens = [_token(name, given) for name, given in _tables(tables, "tokens")]
    by_digest = {one.sha256: one for one in tokens}
    for one in tokens:
        if by_digest[one.sha256] is not one:
            raise AccessError(f"[tokens.{one.name}] is the token of another name too")
    return Book({one.name: one for one in users}, by_digest)


def _tables(tables: Mapping[str, Any], part: str) -> list[tuple[str, Mapping[str, Any]]]:
    found = tables.get(part, {})
    if not isinstance(found, dict):
        raise AccessError(f"{part} must be tables, as [{part}.alice]")
    for name, given in found.items():
        if not NAME.fullmatch(name):
            raise AccessError(f"{name[:80]!r} cannot be a name in [{part}]")
        if not isinstance(given, dict):
            raise AccessError(f"{part}.{name} must be a table, as [{part}.{name}]")
    return list(found.items())


def _user(name: str, given: Mapping[str, Any]) -> User:
    where = f"[users.{name}]"
    _known(where, given, ("role", "password"))
    password = given.get("password")
    if not isinstance(password, str) or not password.startswith("$argon2"):
        raise AccessError(f"{where} needs a password as `pdctl users add` writes it")
    return User(name, _role(where, given), password)


def _token(name: str, given: Mapping[str, Any]) -> Token:
    where = f"[tokens.{name}]"
    _known(where, given, ("role", "sha256", "expires"))
    sha256, expires = given.get("sha256"), given.get("expires")
    if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
        raise AccessError(f"{where} needs a sha256 of 64 lower-case hexadecimal digits")
    if expires is not None and (not hasattr(expires, "timestamp") or expires.tzinfo is None):
        raise AccessError(f"{where} expires must be a time with a zone: 2030-01-31T00:00:00Z")
    return Token(name, _role(where, given), sha256, expires.timestamp() if expires else None)


def _role(where: str, given: Mapping[str, Any]) -> Role:
    try:
        return Role(given.get("role", ""))
    except ValueError:
        raise AccessError(f"{where} role must be one of: {', '.join(Role)}") from None


def _known(where: str, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if unknown := [one for one in given if one not in names]:
        raise AccessError(f"{where} has an unknown entry {unknown[0]!r}")


@dataclass(slots=True)
class Patience:
    """How often a password may be tried: `free` times, then after pauses that double.

    Bounded: the longest untouched are dropped first.
    """

    free: int
    longest_s: float = 300.0
    most: int = 10_000
    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)

    def wait_s(self, who: str, now: float) -> float:
        """Seconds until `who` may try again; 0: now."""
        failures, at = self._failed.get(who, (0, 0.0))
        if failures < self.free:
            return 0.0
        pause = 2.0 ** min(failures - self.free + 1, 16)
        return max(0.0, at + min(self.longest_s, pause) - now)

    def failed(self, who: str, now: float) -> None:
        """One more failure of `who`."""
        failures, _ = self._failed.pop(who, (0, 0.0))
        self._failed[who] = (failures + 1, now)
        if len(self._failed) > self.most:
            del self._failed[next(iter(self._failed))]

    def worked(self, who: str) -> None:
        """`who` signed in: what failed before is forgotten."""
        self._failed.pop(who, None)


@dataclass(slots=True)
class Throttle:
    """Patience with one name from one address, with an address, and with a name from anywhere.

    The last is wide: who tries another's name must not be able to lock that person out for long.
    """

    pair: Patience = field(default_factory=lambda: Patience(5))
    address: Patience = field(default_factory=lambda: Patience(20))
    name: Patience = field(default_factory=lambda: Patience(100, longest_s=10.0))

    def wait_s(self, name: str, address: str, now: float) -> float:
        """Seconds until `name` may be tried from `address` again; 0: now."""
        return max(
            self.pair.wait_s(f"{name} {address}", now),
            self.address.wait_s(address, now),
            self.name.wait_s(name, now),
        )

    def failed(self, name: str, address: str, now: float) -> None:
        """A wrong password."""
        self.pair.failed(f"{name} {address}", now)
        self.address.failed(address, now)
        self.name.failed(name, now)

    def worked(self, name: str, address: str) -> None:
        """A right one."""
        self.pair.worked(f"{name} {address}")
        self.name.worked(name)
