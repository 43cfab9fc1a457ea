"""How values are written. Colour never alone: every state has a glyph and a word.

Unknown is a dash, never zero. Units are always shown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite

from pdctl.domain.handoff import Outcome
from pdctl.domain.lifecycle import Phase
from pdctl_console.styled import Part, clean

UNKNOWN = "—"
Look = tuple[str, str]
"""Glyph and role."""

PHASES: dict[Phase, Look] = {
    Phase.PENDING: ("○", "muted"),
    Phase.STARTING: ("◔", "busy"),
    Phase.LOADING: ("◑", "busy"),
    Phase.WARMING: ("◕", "busy"),
    Phase.PROBING: ("◕", "busy"),
    Phase.READY: ("●", "ok"),
    Phase.DRAINING: ("▽", "warn"),
    Phase.STOPPING: ("▼", "warn"),
    Phase.STOPPED: ("■", "muted"),
    Phase.BACKOFF: ("↻", "warn"),
    Phase.FAILED: ("✗", "bad"),
    Phase.UNKNOWN: ("?", "warn"),
}
"""How each phase looks."""

OUTCOMES: dict[Outcome, Look] = {
    Outcome.OK: ("●", "ok"),
    Outcome.CLIENT_GONE: ("◌", "muted"),
    Outcome.REJECTED: ("▲", "warn"),
    Outcome.OVERLOADED: ("▲", "warn"),
    Outcome.NO_INSTANCE: ("✗", "bad"),
    Outcome.UPSTREAM_ERROR: ("✗", "bad"),
    Outcome.TIMEOUT: ("✗", "bad"),
    Outcome.TRUNCATED: ("✗", "bad"),
}
"""How each outcome looks."""

PAIRS: dict[str, Look] = {
    "ok": ("●", "ok"), "untried": ("○", "muted"), "probing": ("◕", "busy"),
    "paused": ("◒", "warn"), "quarantined": ("⊘", "mark"),
    "incompatible": ("≠", "warn"),
}  # fmt: skip
"""How each state of a pair looks; anything else is failing."""
SIGNALS: dict[str, Look] = {
    "firing": ("▲", "bad"), "pending": ("◔", "warn"), "resolved": ("●", "ok"),
}  # fmt: skip
"""How each state of a signal looks."""
FAILING: Look = ("✗", "bad")


def badge(word: str, look: Look) -> Part:
    """Glyph and word."""
    return f"{look[0]} {clean(word)}", look[1]


def phase(value: Phase) -> Part:
    """A phase as badge."""
    return badge(value.value, PHASES[value])


def outcome(value: Outcome) -> Part:
    """An outcome as badge."""
    return badge(value.value, OUTCOMES[value])


def ms(value: float | None) -> str:
    """Milliseconds, three significant digits; seconds above ten of them."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{_three(value)} ms"


def bare_ms(value: float | None) -> str:
    """Milliseconds without their unit, for a column that says it."""
    return UNKNOWN if value is None or not isfinite(value) else _three(value)


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def size(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", "\u202f")


def percent(value: float | None) -> str:
    """A share 0..1 as percent."""
    return UNKNOWN if value is None else f"{value * 100:.0f} %"


def rate(value: float | None) -> str:
    """Tokens per second."""
    return UNKNOWN if value is None else f"{count(value)}/s"


def clock(value: datetime, *, utc: bool) -> str:
    """Time of day in the chosen zone."""
    return value.astimezone(UTC if utc else None).strftime("%H:%M:%S")


def stamp(value: datetime, *, utc: bool) -> str:
    """Date, time of day and zone."""
    return value.astimezone(UTC if utc else None).strftime("%Y-%m-%d %H:%M:%S %Z")


def moment(value: datetime, now: datetime, *, utc: bool) -> str:
    """Time of day; with its date where that is not today's."""
    zone = UTC if utc else None
    local = value.astimezone(zone)
    today = local.date() == now.astimezone(zone).date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def age(since: datetime, now: datetime) -> str:
    """Elapsed time in its largest unit: 12s, 5m, 3h, 2d."""
    return duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """A duration in its largest unit, rounded down."""
    seconds = max(0.0, seconds)
    for limit, unit, span in ((90, "s", 1), (5400, "m", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{int(seconds / span)}{unit}"
    return f"{int(seconds / 86_400)}d"


def bar(fraction: float, width: int) -> str:
    """A progress bar of `width` cells."""
    filled = round(min(1.0, max(0.0, fraction)) * width)
    return "━" * filled + "╌" * (width - filled)
