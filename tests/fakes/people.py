"""An access file with one user of each role and a token."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pdctl.adapters.access import AccessFile, hashed, write_private
from pdctl.domain.access import Role, digest
from pdctl.ports import Clock

PASSWORD = "correct horse battery"
TOKEN = "pdctl-admin-of-a-program"
NAMES = {Role.VIEWER: "vera", Role.OPERATOR: "otto", Role.ADMIN: "ada"}


@cache
def password() -> str:
    """Hashed once: it takes its time."""
    return hashed(PASSWORD)


def text(users: dict[Role, str] | None = None) -> str:
    """The file's text."""
    rows = [
        f'[users.{name}]\nrole = "{role}"\npassword = "{password()}"\n'
        for role, name in (NAMES if users is None else users).items()
    ]
    return "".join([*rows, f'[tokens.ci]\nrole = "operator"\nsha256 = "{digest(TOKEN)}"\n'])


def access(folder: Path, clock: Clock) -> AccessFile:
    """Who is known, from a file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / "access.toml", text())
    return AccessFile(folder / "access.toml", folder / "sessions.json", clock)
