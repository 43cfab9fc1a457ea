"""Templates and static files: where they are, and the Jinja environment over them.

In a wheel the templates lie beside this module; in a checkout they are at the top level.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pdctl.web import present, words

STATIC = Path(__file__).parent / "static"


def templates_dir() -> Path:
    """The folder of the templates: carried by the wheel, else that of the checkout."""
    carried = Path(__file__).parent / "templates"
    return carried if carried.is_dir() else Path(__file__).resolve().parents[3] / "templates"


def version() -> str:
    """A short hash over all static files: changes when a cached copy must not be used any more."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(STATIC).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def url_builder(root: str) -> Callable[..., str]:
    """A function that builds links under `root` (the prefix a reverse proxy adds)."""

    def url(path: str, /, *parts: str, **query: Any) -> str:
        whole = root + path + "".join("/" + quote(part, safe="") for part in parts)
        kept = {name: value for name, value in query.items() if value not in (None, "", False)}
        return whole + ("?" + urlencode(kept) if kept else "")

    return url


@cache
def environment(root: str) -> Environment:
    """The one environment: everything escaped, and a misspelt name is an error, not a blank."""
    env = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(present.FILTERS | words.FILTERS)
    env.globals.update(present.NAMES | words.NAMES)
    env.globals.update(url=url_builder(root), root=root, assets=version())
    return env
