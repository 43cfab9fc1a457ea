"""Where each key and value of a TOML text stands, since `tomllib` tells values only.

A small scanner for text that `tomllib` accepts, or refuses only for keys given twice; on anything
else it stops early and keeps what it has. Lines and columns count from 1.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field

from pdctl.fleetfile.mistakes import Key

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: \d{2}:[^\s,\]}#]+)?")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|\'\'\'.*?\'{3,5}(?!\')|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Offsets of a key's name and of its value."""

    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Twice:
    """A key or table given a second time; blanking `start`..`end` of the text removes it."""

    path: Key
    first: int
    start: int
    end: int
    table: bool


@dataclass(slots=True)
class Positions:
    """Offsets by path, and the sum of lines that turns an offset into line and column."""

    text: str
    places: dict[Key, Place] = field(default_factory=dict)
    twice: list[Twice] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def at(self, offset: int) -> tuple[int, int]:
        """(line, column) of an offset."""
        if not self._lines:
            self._lines = [0, *(at.end() for at in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def key(self, path: Key) -> tuple[int, int]:
        """Where `path` is named; for what is not there, its nearest present parent."""
        return self.at(place.key) if (place := self._near(path)) else (1, 1)

    def value(self, path: Key) -> tuple[int, int]:
        """Where the value of `path` begins."""
        return self.at(place.value) if (place := self._near(path)) else (1, 1)

    def _near(self, path: Key) -> Place | None:
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path) if path else None


class _Stop(Exception):  # noqa: N818 - not an error: the scan ends here
    """The text is not what the scanner knows; what it has so far stands."""


def find(text: str) -> Positions:
    """Scan `text` (newlines already \\n)."""
    scan = _Scanner(text)
    with suppress(_Stop, RecursionError):
        scan.document()
    return scan.found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.offset = text, 0
        self.found = Positions(text)
        self.counts: dict[Key, int] = {}
        self.declared: dict[Key, int] = {}
        self.skipping: tuple[Key, int, int] | None = None

    def document(self) -> None:
        prefix: Key = ()
        while True:
            self._skip(_BLANK)
            if self.offset >= len(self.text):
                self._end_skipped()
                return
            if self._peek("["):
                self._end_skipped()
                prefix = self._header()
            else:
                self._pair(prefix)

    def _header(self) -> Key:
        start = self.offset
        many = self.text.startswith("[[", start)
        self.offset += 2 if many else 1
        self._skip(_SPACE)
        name = self.offset
        path = self._resolve(self._key())
        self._skip(_SPACE)
        self._expect("]]" if many else "]")
        for depth in range(1, len(path)):
            self._put(path[:depth], Place(name, name))
        if many:
            number = self.counts.get(path, 0)
            self.counts[path] = number + 1
            self._put(path, Place(name, name))
            path = (*path, number)
        elif path in self.declared:
            self.skipping = (path, self.declared[path], start)
        else:
            self.declared[path] = name
        self._put(path, Place(name, name))
        return path

    def _end_skipped(self) -> None:
        if self.skipping:
            path, first, start = self.skipping
            self.found.twice.append(Twice(path, first, start, self.offset, table=True))
            self.skipping = None

    def _resolve(self, parts: tuple[str, ...]) -> Key:
        """A header's name: parts that are arrays of tables mean their last table."""
        path: Key = ()
        for index, part in enumerate(parts):
            path = (*path, part)
            if index < len(parts) - 1 and path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def _pair(self, prefix: Key) -> None:
        start = self.offset
        path = (*prefix, *self._key())
        self._skip(_SPACE)
        self._expect("=")
        self._skip(_SPACE)
        value = self.offset
        again = path in self.found.places and not self.skipping
        for depth in range(len(prefix) + 1, len(path)):
            self._put(path[:depth], Place(start, start))
        if again:
            self._value((*path, -1))  # its content is of no interest
            first = self.found.places[path].key
            self.found.twice.append(Twice(path, first, start, self.offset, table=False))
            return
        self._put(path, Place(start, value))
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        parts = [self._part()]
        while True:
            self._skip(_SPACE)
            if not self._peek("."):
                return tuple(parts)
            self.offset += 1
            self._skip(_SPACE)
            parts.append(self._part())

    def _part(self) -> str:
        if self._peek('"') or self._peek("'"):
            raw = self._take(_STRING)
            try:
                return str(tomllib.loads(f"k={raw}")["k"])
            except ValueError:
                raise _Stop from None
        return self._take(_BARE)

    def _value(self, path: Key) -> None:
        if self._peek("["):
            self._array(path)
        elif self._peek("{"):
            self._inline(path)
        elif self._peek('"') or self._peek("'"):
            self._take(_STRING)
        else:
            self._take(_SCALAR)

    def _array(self, path: Key) -> None:
        self.offset += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self._peek("]"):
                self.offset += 1
                return
            start = self.offset
            self._put((*path, number), Place(start, start))
            self._value((*path, number))
            number += 1
            self._skip(_BLANK)
            if self._peek(","):
                self.offset += 1

    def _inline(self, path: Key) -> None:
        self.offset += 1
        while True:
            self._skip(_BLANK)
            if self._peek("}"):
                self.offset += 1
                return
            self._pair(path)
            self._skip(_BLANK)
            if self._peek(","):
                self.offset += 1

    def _put(self, path: Key, place: Place) -> None:
        self.found.places.setdefault(path, place)

    def _peek(self, character: str) -> bool:
        return self.text.startswith(character, self.offset)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self.text, self.offset):
            self.offset = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.offset)
        if match is None or match.end() == self.offset:
            raise _Stop
        self.offset = match.end()
        return match.group()

    def _expect(self, text: str) -> None:
        if not self._peek(text):
            raise _Stop
        self.offset += len(text)
