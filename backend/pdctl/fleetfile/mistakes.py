"""What is wrong in a fleet file: where, what, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from pdctl.domain.errors import OperatorError

ERROR = "error"
WARNING = "warning"
Key = tuple[str | int, ...]
"""Where a value is: ("pools", "prefill", "devices", 0)."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong. Lines and columns count from 1; column 1 of line 1 means the whole file."""

    line: int
    column: int
    key: str
    """Dotted, as written in TOML: "pools.prefill.size"."""
    message: str
    hint: str = ""
    severity: str = ERROR
    """"error": the file is refused. "warning": it is accepted, and this is worth knowing."""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class FleetFileError(OperatorError):
    """A fleet file that cannot be used; `mistakes` has each reason."""

    def __init__(self, path: str, mistakes: tuple[Mistake, ...]) -> None:
        errors = [one for one in mistakes if one.severity == ERROR]
        first = errors[0] if errors else mistakes[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(
            "bad_fleet_file",
            f"{path}:{first.line}:{first.column}: {first.message}{more}",
            first.hint or f"See all with: pdctl validate {path}",
        )
        self.path = path
        self.mistakes = mistakes


def dotted(key: Key) -> str:
    """`key` as TOML writes it; array positions in brackets."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = part.replace("-", "").replace("_", "").isalnum() and part.isascii()
            name = part if bare else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
            text += f".{name}" if text else name
    return text


def nearest(word: str, known: tuple[str, ...] | frozenset[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` was probably meant to be."""
    folded = {name.replace("-", "_").lower(): name for name in sorted(known)}
    found = get_close_matches(word.replace("-", "_").lower(), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else None
