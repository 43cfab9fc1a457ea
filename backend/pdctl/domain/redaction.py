"""Secrets never leave through a log line, a command line or an environment that we show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MASK = "***"
_SECRET_NAME = re.compile(
    r"(?:token|secrets?|passw(?:or)?d|(?:api|access|private)[_-]?keys?|credentials?|authorization)$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"""(?x)
    \b(?:sk|hf|ghp|gho|github_pat|xox[bp])[-_][A-Za-z0-9_\-]{6,}      # tokens by their own look
    | (?P<bearer>\bBearer\s+)[^\s'",}]+
    | (?P<header>\bAuthorization['"]?\s*[:=]\s*['"]?(?:Basic\s+)?)(?!Bearer\b)[^\s'",}]+
    | (?P<variable>\b(?-i:[A-Z][A-Z0-9_]*_(?:TOKEN|SECRET|PASSWORD|KEY))
        ['"]?\s*[:=]\s*['"]?)[^\s'",}]+
    | (?P<word>\b(?:api[_-]?key|(?:hf|auth|access)[_-]token|secret|passw(?:or)?d)
        ['"]?\s*[:=]\s*\[?['"]?)[^\s'",}\]]+
    | (?P<url>://[^/\s:@]*:)[^/\s@]+(?=@)                              # user:password@host
    """,
    re.IGNORECASE,
)


def text(line: str) -> str:
    """The line with tokens, keys and passwords masked."""
    return _VALUE.sub(_mask, line)


def is_secret(name: str) -> bool:
    """Whether a variable or an argument of that name holds a secret (HF_TOKEN, --api-key...)."""
    return bool(_SECRET_NAME.search(name))


def redact(argv: Sequence[str], env: Iterable[tuple[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Command line and environment as they may be shown."""
    shown: list[str] = []
    for word in argv:
        name, equals, _ = word.partition("=")
        if shown and argv[len(shown) - 1].startswith("--") and is_secret(argv[len(shown) - 1]):
            shown.append(MASK)
        elif equals and name.startswith("--") and is_secret(name):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(text(word))
    return shown, {key: MASK if is_secret(key) else text(value) for key, value in env}


def _mask(match: re.Match[str]) -> str:
    kept = next((value for value in match.groupdict().values() if value), "")
    return kept + MASK
