"""Users, tokens and sessions of the admin API, in two files for their owner's eyes only.

The access file is read again within a second of a change; while it cannot be read, what was read
last counts, and without any nobody gets in. Sessions outlive a restart; passwords and tokens are
kept as argon2 and SHA-256, never as they are, and never logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import tempfile
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pdctl.domain.access import (
    AccessError,
    Book,
    Principal,
    Signed,
    Throttle,
    Unsigned,
    digest,
    fingerprint,
    parse,
)
from pdctl.domain.errors import InternalError
from pdctl.ports import Clock

log = logging.getLogger(__name__)
LOOK_S = 1.0
"""How often the access file is looked at, at most."""
SESSION_S = 12 * 3600.0
MOST_SESSIONS = 10_000
SESSION_PREFIX = "pdctl-session-"
_HASHER = PasswordHasher()
"""argon2id with the library's defaults (RFC 9106, low memory)."""


def hashed(password: str) -> str:
    """What is kept of a password."""
    return _HASHER.hash(password)


class AccessFile:
    """Who is known, and who is signed in."""

    def __init__(self, path: Path, sessions: Path, clock: Clock) -> None:
        self._path, self._sessions_path, self._clock = path, sessions, clock
        self._book: Book | None = None
        self._looked = -math.inf
        self._seen: tuple[int, ...] = ()
        self._throttle = Throttle()
        self._hashing = asyncio.Semaphore(2)  # 64 MiB each
        self._sessions = _load(sessions)
        self._nobody = hashed(secrets.token_hex())
        """Tried for names that nobody has, so that they take as long."""

    def known(self, shown: str) -> Principal | None:
        """Whose session or token `shown` is; None when nobody's (any more)."""
        book = self._read()
        if book is None or not shown:
            return None
        if not shown.startswith(SESSION_PREFIX):
            return book.token(shown, self._clock.now())
        name, mark, until = self._sessions.get(digest(shown), ("", "", 0.0))
        user = book.users.get(name)
        if user is None or fingerprint(user) != mark or until <= self._clock.now():
            return None
        return Principal(user.name, user.role, "user")

    async def sign_in(self, name: str, password: str, address: str) -> Signed | Unsigned:
        """Begin a session of `name`, who asks from `address`; or none, and how long to wait."""
        now = self._clock.monotonic()
        wait = self._throttle.wait_s(name, address, now)
        if wait > 0:
            return Unsigned(wait)
        self._throttle.failed(name, address, now)  # before it is tried: many may come together
        book = self._read()
        user = book.users.get(name) if book else None
        async with self._hashing:
            right = await asyncio.to_thread(
                _right, user.password if user else self._nobody, password
            )
        if user is None or not right:
            return Unsigned(known=user is not None)
        self._throttle.worked(name, address)
        shown, until = SESSION_PREFIX + secrets.token_urlsafe(32), self._clock.now() + SESSION_S
        self._sessions[digest(shown)] = (name, fingerprint(user), until)
        self._keep()
        return Signed(shown, Principal(user.name, user.role, "user"), until)

    def sign_out(self, shown: str) -> bool:
        """End one session; False when there was none."""
        found = self._sessions.pop(digest(shown), None) is not None
        if found:
            self._keep()
        return found

    def _read(self) -> Book | None:
        now = self._clock.monotonic()
        if now - self._looked < LOOK_S:
            return self._book
        self._looked = now
        try:
            status = self._path.stat()
            seen: tuple[int, ...] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            seen = ()
        if seen != self._seen or self._book is None:
            self._seen = seen
            self._parse()
        return self._book

    def _parse(self) -> None:
        try:
            self._book = parse(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, AccessError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            still = "nobody gets in" if self._book is None else "what was read last counts"
            log.error("the access file %s cannot be used: %s; %s", self._path, why, still)

    def _keep(self) -> None:
        now = self._clock.now()
        live = {key: one for key, one in self._sessions.items() if one[2] > now}
        self._sessions = dict(sorted(live.items(), key=lambda item: item[1][2])[-MOST_SESSIONS:])
        try:
            write_private(self._sessions_path, json.dumps(self._sessions))
        except OSError as error:
            log.warning("sessions cannot be kept (%s): they end with this process", error.strerror)


def _right(encoded: str, password: str) -> bool:
    try:
        return _HASHER.verify(encoded, password)
    except (VerificationError, InvalidHashError):
        return False


def _load(path: Path) -> dict[str, tuple[str, str, float]]:
    """The sessions of an earlier run; none when the file is not whole: people sign in again."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): (str(one[0]), str(one[1]), float(one[2])) for key, one in kept.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        log.warning("the sessions in %s cannot be read: everybody signs in again", path)
        return {}


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    Path(new).replace(path)


def open_access(path: Path | None, state_dir: Path, clock: Clock) -> AccessFile | None:
    """The access that is in force; None where there is no access file: loopback or one token."""
    if path is None:
        return None
    found = AccessFile(path, state_dir / "sessions.json", clock)
    if found._read() is None:  # noqa: SLF001 - its own maker
        raise InternalError(
            "access_unusable", f"The access file {path} cannot be used.", "The log says why."
        )
    return found
