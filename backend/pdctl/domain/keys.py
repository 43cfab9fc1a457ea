"""API keys of the front door: who may come in, and for how much of it.

A key is made of 256 drawn bits and never kept, only its SHA-256 is: there is nothing to guess, so a
slow hash would protect nothing.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KNOWN = ("sha256", "requests_per_minute", "concurrent", "models")


class KeysError(ValueError):
    """The text holds no keys, in one sentence."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One client's key. None, and no models: no limit."""

    name: str
    sha256: str
    requests_per_minute: int | None = None
    concurrent: int | None = None
    """Requests that may be open at a time."""
    models: tuple[str, ...] = ()


def digest(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def parse(text: str) -> dict[str, ApiKey]:
    """The keys of a keys file by their digests; KeysError when any of it cannot be understood."""
    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise KeysError(f"it is not valid TOML: {error}") from None
    keys = [_key(name, given) for name, given in tables.items()]
    found = {one.sha256: one for one in keys}
    for one in keys:
        if found[one.sha256] is not one:
            raise KeysError(f"[{one.name}] and [{found[one.sha256].name}] are the same key")
    return found


def _key(name: str, given: Any) -> ApiKey:
    if not NAME.fullmatch(name):
        raise KeysError(f"{name[:80]!r} cannot be a key's name")
    if not isinstance(given, dict):
        raise KeysError(f"{name} stands outside a table; every key is one, as [{name}]")
    if unknown := [one for one in given if one not in _KNOWN]:
        raise KeysError(f"[{name}] has an unknown entry {unknown[0]!r}")
    sha256, models = given.get("sha256"), given.get("models", [])
    if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
        raise KeysError(f"[{name}] needs a sha256 of 64 lower-case hexadecimal digits")
    if not isinstance(models, list) or not all(isinstance(one, str) for one in models):
        raise KeysError(f"[{name}] models must be a list of names")
    limits = {one: _limit(name, one, given.get(one)) for one in _KNOWN[1:3]}
    return ApiKey(name, sha256, models=tuple(models), **limits)


def _limit(name: str, entry: str, given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 1_000_000:
        raise KeysError(f"[{name}] {entry} must be a whole number from 1 to 1000000")
    return given
