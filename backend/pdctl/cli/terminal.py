"""All output and every exit code: the one module that prints, and the one that maps failures.

Law: data goes to stdout, talk to stderr; a failure is a sentence with the next step, never a trace.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TextIO

SCHEMA_VERSION = 1
"""Of `--json`; equal to `contract.wire.SCHEMA_VERSION`, which a test compares."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_URL = re.compile(
    r"https?://(?:[^\s/@]+@)?(?:\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+)(?::(\d{1,5}))?(?:/\S*)?"
)
SIMULATED = "SIMULATED: no vLLM serves these requests."
"""Said beside numbers of simulated engines."""
STYLES = {
    "red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2",
}  # fmt: skip


class ExitCode(IntEnum):
    """What a script may rely on."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNHEALTHY = 3
    UNREACHABLE = 4
    CONFLICT = 5
    TIMEOUT = 6
    DENIED = 7
    INTERRUPTED = 130


MEANING = {
    ExitCode.OK: "it worked",
    ExitCode.FAILED: "it failed; stderr says why",
    ExitCode.USAGE: "wrong usage, or a fleet file with mistakes",
    ExitCode.UNHEALTHY: "the fleet is not ready to serve (status, doctor)",
    ExitCode.UNREACHABLE: "pdctl serve does not answer",
    ExitCode.CONFLICT: "something else holds it, or the world moved meanwhile",
    ExitCode.TIMEOUT: "what was waited for did not happen in time",
    ExitCode.DENIED: "the token is missing or wrong",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}


class Stop(Exception):  # noqa: N818 - an orderly end, with its code
    """End the verb with this code; the sentence (if any) goes to stderr."""

    def __init__(self, code: ExitCode, sentence: str = "") -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


@dataclass(slots=True)
class Terminal:
    """Where one verb writes, and how."""

    json: bool = False
    quiet: bool = False
    color: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    url: str = ""
    token: str | None = None

    @property
    def tty(self) -> bool:
        """True when stdout is a terminal that a person looks at."""
        return self.out.isatty()

    def sign(self, symbol: str, plain: str) -> str:
        """`symbol` where stdout can carry it, else `plain`."""
        return symbol if "utf" in (self.out.encoding or "").lower() else plain

    def data(self, text: str = "") -> None:
        """A line of what was asked for."""
        self.out.write(f"{text}\n")
        self.out.flush()

    def raw(self, text: str) -> None:
        """Text as it is, without a line end of ours; made safe for a person's terminal."""
        if self.tty:
            text = clean(text)
        self.out.write(text)
        self.out.flush()

    def document(self, value: Any, *, line: bool = False) -> None:
        """A JSON document with its schema_version; one `line` in a stream of them."""
        body = value.model_dump(mode="json") if hasattr(value, "model_dump") else dict(value)
        body = {"schema_version": SCHEMA_VERSION, **body}
        self.data(json.dumps(body, ensure_ascii=False, indent=None if line else 2))

    def say(self, text: str) -> None:
        """Talk: progress, hints, what happened beside the answer."""
        if not self.quiet:
            self.err.write(f"{text}\n")
            self.err.flush()

    def fail(self, text: str) -> None:
        """Why it failed; said even when quiet."""
        self.err.write(f"{text}\n")
        self.err.flush()

    def paint(self, text: str, style: str) -> str:
        """`text` in a style, where colours are wanted."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.color and style else text

    def table(
        self,
        head: Sequence[str],
        rows: Iterable[Sequence[str]],
        style: dict[int, dict[str, str]] | None = None,
    ) -> list[str]:
        """Aligned columns; `style` paints a column's cells by their text."""
        cells = [list(head), *([clean(str(cell)) for cell in row] for row in rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
        lines = []
        for number, row in enumerate(cells):
            parts = []
            for column, cell in enumerate(row):
                padded = cell.ljust(widths[column])
                name = "dim" if number == 0 else (style or {}).get(column, {}).get(cell, "")
                parts.append(self.paint(padded, name) if name else padded)
            lines.append("  ".join(parts).rstrip())
        return lines


def clean(text: str) -> str:
    """`text` without escape sequences and control characters (newline and tab stay)."""
    return _CONTROL.sub("", text)


def open_terminal(
    *, as_json: bool, quiet: bool, no_color: bool, url: str, token_file: str | None
) -> Terminal:
    """The terminal that the common options describe; NO_COLOR and FORCE_COLOR are honoured."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    wanted = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    color = wanted and not no_color and not os.environ.get("NO_COLOR") and not as_json
    address = _address(url) if url else ""
    token = _token(token_file)
    if address and token is None:
        from pdctl.cli import kept  # it stops as this module does

        token = kept.token_of(address)
    return Terminal(as_json, quiet, color, url=address, token=token)


def default_url() -> str:
    """Where `pdctl serve` listens, as far as this environment says."""
    port = os.environ.get("PDCTL_ADMIN_PORT") or "8080"
    return os.environ.get("PDCTL_URL") or f"http://127.0.0.1:{port}"


def port_number(variable: str, text: str) -> int:
    """The port that an environment variable names."""
    if text.isdecimal() and 1 <= int(text) <= 65535:
        return int(text)
    raise Stop(ExitCode.USAGE, f"{variable} must be a port from 1 to 65535, not {text!r}.")


def _address(url: str) -> str:
    """`url` when it can be one; else a sentence saying who gave it."""
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match[1] or 1) <= 65535:
        port = os.environ.get("PDCTL_ADMIN_PORT", "")
        if port and url == f"http://127.0.0.1:{port}":
            port_number("PDCTL_ADMIN_PORT", port)
        raise Stop(
            ExitCode.USAGE,
            f"The admin address cannot be {url!r} (--url, PDCTL_URL). "
            "For example http://127.0.0.1:8080.",
        )
    return url


def _token(token_file: str | None) -> str | None:
    name = token_file or os.environ.get("PDCTL_TOKEN_FILE")
    if not name:
        return os.environ.get("PDCTL_TOKEN") or None
    try:
        with open(name, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start-up time
            return file.readline().strip() or None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Stop(ExitCode.USAGE, f"The token file {name} cannot be read: {why}.") from error


def explain(error: BaseException) -> tuple[ExitCode, str]:
    """The exit code of a failure, and the sentence that goes with it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Stop):
        return error.code, error.sentence
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED, ""
    code = _code(error)
    if code is not None:
        return code, str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return ExitCode.FAILED, f"{error.strerror}{where}."
    said = str(error) or type(error).__name__
    return ExitCode.FAILED, (
        f"pdctl failed in a way it did not expect: {type(error).__name__}: {said}. "
        "PDCTL_DEBUG=1 shows where; please report it."
    )


def _code(error: BaseException) -> ExitCode | None:
    """By class name up its ancestors: naming the classes would import all that can fail."""
    for kind in type(error).__mro__:
        known = _CODES.get(f"{kind.__module__}.{kind.__name__}")
        if known is not None:
            return known
    return None


_CODES = {
    "pdctl.client.errors.Unreachable": ExitCode.UNREACHABLE,
    "pdctl.client.errors.Denied": ExitCode.DENIED,
    "pdctl.client.errors.Conflict": ExitCode.CONFLICT,
    "pdctl.client.errors.ClientError": ExitCode.FAILED,
    "pdctl.fleetfile.mistakes.FleetFileError": ExitCode.USAGE,
    "pdctl.domain.errors.ConflictError": ExitCode.CONFLICT,
    "pdctl.domain.errors.OperatorError": ExitCode.USAGE,
    "pdctl.domain.errors.PdctlError": ExitCode.FAILED,
    "pdctl.engine_env.blueprint.EngineError": ExitCode.FAILED,
}


def debug() -> None:
    """The trace of the error being handled, when PDCTL_DEBUG asks for it."""
    if os.environ.get("PDCTL_DEBUG"):
        traceback.print_exc()


def hush() -> None:
    """Nobody reads stdout any more: let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
