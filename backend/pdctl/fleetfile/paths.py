"""Paths and references in a fleet file: ~ and $VARS expanded, relative to the file itself."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from pdctl.fleetfile.mistakes import Key, dotted
from pdctl.fleetfile.reader import Findings

_LOOKS_LIKE_PATH = ("/", "./", "../", "~", "$")
_MANAGED = "`make engine` builds the CPU environment; pdctl then knows it by this name."
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SECRET = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE_?KEY)", re.IGNORECASE
)


def expand(text: str, file: Path, found: Findings, key: Key, *, only_paths: bool = False) -> str:
    """An absolute path; with `only_paths`, text that does not look like one stays (a hub name)."""
    if only_paths and not text.startswith(_LOOKS_LIKE_PATH):
        return text
    for match in _VARIABLE.finditer(text):
        name = match[1] or match[2]
        if name not in os.environ:
            found.error(
                key,
                f"{dotted(key)} names the environment variable {name}, which is not set.",
                _MANAGED if name in ("PDCTL_ENGINE", "PDCTL_MODEL") else f"Set {name}.",
            )
            return text
    try:
        path = Path(os.path.expandvars(text)).expanduser()
    except RuntimeError:
        found.error(key, f"{dotted(key)}: there is no such home folder.", "Write the whole path.")
        return text
    if not only_paths and "/" not in text and (command := shutil.which(text)):
        return command
    # Not resolve(): an environment's interpreter is a link that must stay one.
    return os.path.normpath(file.absolute().parent / path)


def reference(value: str, file: Path, found: Findings, key: Key) -> str:
    """An environment value, with its reference checked and made absolute."""
    kind, _, rest = value.partition(":")
    if kind == "env" and rest:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rest):
            message = f"{dotted(key)}: {rest[:40]!r} cannot be a variable's name."
            found.error(key, message, 'Write "env:NAME".')
        elif rest not in os.environ:
            message = f"{dotted(key)} refers to {rest}, which is not set here."
            found.warn(key, message, "It must be set where pdctl serve runs.", named=False)
        return value
    if kind == "file" and rest:
        path = expand(rest, file, found, key)
        if not Path(path).is_file():
            message = f"{dotted(key)} refers to {path}, which is not a file here."
            found.warn(key, message, "It must be there where pdctl serve runs.", named=False)
        return f"file:{path}"
    if value and _SECRET.search(str(key[-1])):
        message = f"{dotted(key)} looks like a secret written in the file."
        hint = f'Write "env:{key[-1]}" or "file:PATH": it is read at launch and never shown.'
        found.warn(key, message, hint, named=False)
    return value
