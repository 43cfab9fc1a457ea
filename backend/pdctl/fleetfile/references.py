"""Secrets by reference: "env:NAME" and "file:PATH" are read at launch, and are never stored.

The launcher calls `resolve` last, so fleet files, revisions, commands and logs hold the reference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pdctl.domain.errors import EngineError

MAX_BYTES = 64 * 1024


def resolve(env: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The environment with every reference replaced by what it refers to; EngineError if gone."""
    return {name: _value(name, value) for name, value in env}


def _value(name: str, value: str) -> str:
    kind, _, rest = value.partition(":")
    if kind == "env" and rest.isidentifier():
        if rest not in os.environ:
            raise EngineError(
                "missing_reference",
                f"{name} refers to the environment variable {rest}, which is not set.",
                f"Set {rest} where pdctl serve runs.",
            )
        return os.environ[rest]
    if kind == "file" and rest:
        try:
            with Path(rest).open(encoding="utf-8") as file:
                return file.read(MAX_BYTES).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            raise EngineError(
                "missing_reference",
                f"{name} refers to the file {rest}, which cannot be read: {why}.",
                "Put it there, readable for pdctl serve.",
            ) from error
    return value
