"""Text as parts, each with a role; colours belong to the style sheet, one per role.

Law: nothing here or above is ever parsed as markup, and text from outside passes `clean`. So no id,
message or log line can change a colour, move the cursor or close a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len, set_cell_size
from textual.content import Content

Part = tuple[str, str]
"""Text and its role ("" is plain)."""
Line = tuple[Part, ...]

STYLES = {
    "": "",
    "strong": "bold",
    "muted": "$foreground-muted",
    "ok": "$text-success",
    "warn": "$text-warning",
    "bad": "$text-error",
    "busy": "$text-accent",
    "key": "bold $text-primary",
    "mark": "bold reverse $text-warning",
    "here": "bold reverse $text-primary",
}
"""Each role as a style of the theme, for content; tables and logs have component classes for it."""

LONGEST = 4000
"""A longer single line is cut: no terminal shows it, and measuring it costs every redraw."""
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)


def clean(text: str) -> str:
    """`text` safe for a terminal: no escape sequences, no control or direction characters."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text) - LONGEST} more characters)"
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\t" in text:
        text = text.expandtabs(4)
    return _CONTROL.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 10 or code in (0x2028, 0x2029):
        return "⏎"
    if code < 32:
        return chr(0x2400 + code)
    return "\u2421" if code == 127 else "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> Line:
    """A line of one part without a role."""
    return ((clean(text), ""),) if text else ()


def told(text: str, role: str) -> Line:
    """A line of one part in a role."""
    return ((clean(text), role),) if text else ()


def content(lines: Iterable[Line]) -> Content:
    """Lines as Textual content, coloured by role."""
    shown = [
        Content.assemble(*((text, STYLES[role]) for text, role in line)) for line in lines
    ]  # fmt: skip
    return Content("\n").join(shown)


def text_of(line: Line) -> str:
    """A line without its roles."""
    return "".join(text for text, _ in line)


def width_of(line: Line) -> int:
    """How many terminal cells a line takes."""
    return sum(cell_len(text) for text, _ in line)


def cut(line: Line, width: int) -> Line:
    """A line in at most `width` cells; what was cut off shows as an ellipsis."""
    if width_of(line) <= width:
        return line
    kept: list[Part] = []
    room = width - 1
    for text, role in line:
        size = cell_len(text)
        if size > room:
            kept.append((f"{set_cell_size(text, max(0, room)).rstrip()}…", role))
            break
        kept.append((text, role))
        room -= size
    return tuple(kept) if width > 0 else ()


def fit(line: Line, width: int, *, right: bool = False) -> Line:
    """A line in exactly `width` cells."""
    line = cut(line, width)
    gap = " " * (width - width_of(line))
    if not gap:
        return line
    return ((gap, ""), *line) if right else (*line, (gap, ""))


def wrap(line: Line, width: int, indent: int = 2) -> list[Line]:
    """A line as rows of at most `width` cells, broken at spaces where that wastes little."""
    if width < 8 or width_of(line) <= width:
        return [line]
    text = text_of(line)
    first, *rest = (_slice(line, start, end) for start, end in _pieces(text, width, indent))
    return [first, *(((" " * indent, ""), *row) for row in rest)]


def _pieces(text: str, width: int, indent: int) -> Iterator[tuple[int, int]]:
    """Where each row begins and ends; the space that a row is broken at belongs to none."""
    start, room = 0, width
    while (end := _reach(text, start, room)) < len(text):
        space = text.rfind(" ", start + room // 2, end + 1)
        if space > start:
            yield start, space
            start = space + 1
        else:
            yield start, end
            start = end
        room = width - indent
    yield start, len(text)


def _reach(text: str, start: int, room: int) -> int:
    """The end of the longest piece from `start` that fits in `room` cells."""
    end = start + room
    if text.isascii():
        return end
    end = min(end, len(text))
    while end > start + 1 and cell_len(text[start:end]) > room:
        end -= 1
    return end


def _slice(line: Line, start: int, end: int) -> Line:
    kept, at = [], 0
    for text, role in line:
        first, last = max(0, start - at), min(len(text), end - at)
        if first < last:
            kept.append((text[first:last], role))
        at += len(text)
    return tuple(kept)
