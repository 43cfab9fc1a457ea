"""Tokens that `pdctl login` keeps, one for each admin address, for their owner's eyes only.

In `$XDG_CONFIG_HOME/pdctl/tokens.json`. A token that is given (--token-file, PDCTL_TOKEN) wins.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pdctl.cli.terminal import ExitCode, Stop


def file() -> Path:
    """Where they are."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "pdctl" / "tokens.json"


def token_of(url: str) -> str | None:
    """The token that is kept for `url`; Stop when others could read it, or nobody can."""
    return _read().get(url.rstrip("/"))


def keep(url: str, token: str) -> None:
    """Keep a token for `url`, in place of what was kept for it."""
    _write(_read() | {url.rstrip("/"): token})


def forget(url: str) -> bool:
    """Forget the token of `url`; False when there was none."""
    known = _read()
    found = known.pop(url.rstrip("/"), None) is not None
    if found:
        _write(known)
    return found


def _read() -> dict[str, str]:
    where = file()
    try:
        if where.stat().st_mode & 0o077:
            raise Stop(
                ExitCode.USAGE, f"Others may read the tokens in {where}: chmod 600 {where}"
            )  # fmt: skip
        known = json.loads(where.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        words = "Remove it, and sign in again with `pdctl login`."
        raise Stop(ExitCode.USAGE, f"{where} cannot be read: {error}. {words}") from error
    if not isinstance(known, dict) or not all(isinstance(one, str) for one in known.values()):
        raise Stop(ExitCode.USAGE, f"{where} is no file of `pdctl login`: remove it.")
    return known


def _write(known: dict[str, str]) -> None:
    from pdctl.adapters.access import write_private

    where = file()
    try:
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(where, json.dumps(known, indent=1) + "\n")
    except OSError as error:
        raise Stop(ExitCode.FAILED, f"{where} cannot be written: {error.strerror}.") from error
