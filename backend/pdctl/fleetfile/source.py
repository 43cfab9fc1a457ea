"""From a file to TOML values with positions: encoding, size and syntax, each with its sentence."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pdctl.fleetfile.mistakes import Mistake, dotted
from pdctl.fleetfile.positions import Positions, Twice, find

MAX_BYTES = 1024 * 1024
"""A fleet file is written by hand; a larger one is some other file."""
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BARE_WORD = re.compile(r"=[ \t]*([A-Za-z][^\s#]*)[ \t]*(?:#.*)?$")


def read(path: Path) -> tuple[str, Mistake | None]:
    """The text of a fleet file, or why it cannot be had."""
    try:
        if path.is_dir():
            return "", _whole("This is a directory, not a fleet file.", _files_in(path))
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return "", _whole("There is no such file.", _files_in(path.parent))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return "", _whole(f"The file cannot be read: {why}.", "")
    if len(raw) > MAX_BYTES:
        return "", _whole(
            f"The file is larger than {MAX_BYTES // 1024} KiB, which no fleet file is.",
            "Is this the right file?",
        )
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8")) + 1
        message = f"The file is not UTF-8: byte 0x{raw[error.start]:02x} here."
        return "", Mistake(line, column, "", message, "Save it as UTF-8.")


def parse(text: str) -> tuple[dict[str, Any] | None, Positions, list[Mistake]]:
    """TOML values with the place of each; keys given twice are reported and the rest is read."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        found = _whole("The file is empty.", _examples())
        return None, Positions(text), [found]
    if len(text) > MAX_BYTES:
        found = _whole(f"The text is larger than {MAX_BYTES // 1024} KiB.", "")
        return None, Positions(text), [found]
    values, failure = _loads(text)
    places = find(text)
    if failure is None:
        return values, places, []
    if not places.twice:
        return None, places, [failure]
    mistakes = [_twice(one, places) for one in places.twice]
    values, _ = _loads(_without(text, places.twice))
    return values, places, mistakes


def _loads(text: str) -> tuple[dict[str, Any] | None, Mistake | None]:
    try:
        return tomllib.loads(text), None
    except RecursionError:
        return None, _whole("Values are nested too deeply.", "")
    except ValueError as error:
        return None, _syntax(text, str(error))


def _syntax(text: str, said: str) -> Mistake:
    match = _AT.search(said)
    message = said[: match.start()] if match else said
    lines = text.split("\n")
    if match and match[1]:
        line, column = int(match[1]), int(match[2])
    else:
        line = max((n for n, row in enumerate(lines, 1) if row.strip()), default=1)
        column = len(lines[line - 1]) + 1
    row = lines[line - 1] if line <= len(lines) else ""
    hint = "The rest of the file can be checked once this is right."
    if word := _BARE_WORD.search(row):
        hint = f'Text needs quotes: "{word[1]}". {hint}'
    return Mistake(line, column, "", f"This is not valid TOML: {message}.", hint)


def _twice(one: Twice, places: Positions) -> Mistake:
    line, column = places.at(one.start)
    what = f"[{dotted(one.path)}]" if one.table else dotted(one.path)
    first, _ = places.at(one.first)
    hint = "Put both parts under one header." if one.table else "Keep one of the two."
    message = f"{what} is given twice; the first is on line {first}."
    return Mistake(line, column, dotted(one.path), message, hint)


def _without(text: str, twice: list[Twice]) -> str:
    for one in twice:
        blank = "".join("\n" if char == "\n" else " " for char in text[one.start : one.end])
        text = text[: one.start] + blank + text[one.end :]
    return text


def _examples() -> str:
    """Where to start from: a checkout has examples, and the demo writes a file anywhere."""
    folder = Path(__file__).resolve().parents[3] / "examples"
    if folder.is_dir():
        return f"Start from a file in {folder}."
    return "`pdctl demo --engine simulated` writes one and says where; start from that."


def _files_in(folder: Path) -> str:
    try:
        found = sorted(one.name for one in folder.glob("*.toml"))[:5]
    except OSError:
        found = []
    return f"TOML files there: {', '.join(found)}." if found else ""


def _whole(message: str, hint: str) -> Mistake:
    return Mistake(1, 1, "", message, hint)
