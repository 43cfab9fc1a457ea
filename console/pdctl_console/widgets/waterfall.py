"""A request's bars on one time axis; how a bar was known is drawn and marked, not only coloured."""

from __future__ import annotations

from pdctl.contract.resources import SpanView
from pdctl_console import format as fmt
from pdctl_console.styled import Line, cut, fit, told, width_of, wrap

_FILL = {"measured": "█", "derived": "▒"}
_ROLE = {"measured": "key", "derived": "busy"}
_SIGN = {"measured": " ", "derived": "~"}
_LONGEST_NAME, _LONGEST_WHERE, _DURATION = 27, 16, 9
_WHERE_FROM, _NOTES_FROM = 60, 150
"""From these widths on the instance and the note of each bar have a place beside it."""


def draw(spans: list[SpanView], width: int) -> list[Line]:
    """The bars, `width` cells wide, with their axis and legend."""
    if not spans:
        return [told("No spans: the request never reached an instance.", "muted")]
    end = max(span.end_ms for span in spans) or 1.0
    widest = max(width_of(told(span.name, "")) for span in spans)
    names = min(_LONGEST_NAME, widest, max(10, width // 3))
    where = min(_LONGEST_WHERE, max(width_of(told(span.instance, "")) for span in spans))
    where = where if width >= _WHERE_FROM else 0
    notes = 44 if width >= _NOTES_FROM and any(span.note for span in spans) else 0
    room = max(8, width - names - where - notes - _DURATION - 5)
    lines = [line for span in spans for line in _bar(span, end, (names, room, where, notes))]
    scale = f"{'':<{names + 2}}{_scale(end, room)}"
    return [*lines, told(scale, "muted"), (), *wrap(_legend(spans), max(width, 8), 0)]


def _legend(spans: list[SpanView]) -> Line:
    known = {span.source for span in spans}
    parts = [("█ measured by the router", "key")]
    if "derived" in known:
        parts.append(("   ▒ ~ derived from the engine's own times", "busy"))
    if known - set(_FILL):
        parts.append(("   · ? not known", "muted"))
    return tuple(parts)


def _scale(end: float, room: int) -> str:
    """Round moments under the axis, from 0 to the end."""
    last = fmt.ms(end)
    middle = fmt.ms(end / 2) if room >= 40 else ""
    half = room // 2
    left = f"{'0':<{half - len(middle) // 2}}{middle}"
    return f"{left}{last:>{room - len(left)}}"


def _bar(span: SpanView, end: float, sizes: tuple[int, int, int, int]) -> list[Line]:
    names, room, where, notes = sizes
    start = min(room - 1, max(0, int(span.start_ms / end * room)))
    exact = (span.end_ms - span.start_ms) / end * room
    length = min(max(1, round(exact)), room - start)
    role = _ROLE.get(span.source, "muted")
    fill = (
        _FILL.get(span.source, "·") if exact >= 0.5 or span.source not in _FILL else "▏"
    ) * length
    took = f"{_SIGN.get(span.source, '?')}{fmt.ms(max(0.0, span.end_ms - span.start_ms))}"
    name, *more = wrap(told(span.name, "bad" if "failed" in span.name else ""), names, 0)
    line: Line = (
        *fit(name, names),
        ("  " + " " * start, ""),
        (fill, role),
        (" " * (room - start - length), ""),
        (f" {took:>{_DURATION}} ", ""),
        *fit(told(span.instance, "muted"), where),
    )
    if notes:
        line = (*line, ("  ", ""), *cut(told(span.note, "muted"), notes - 2))
    return [line, *more]
