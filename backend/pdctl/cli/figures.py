"""How the command line writes numbers: units always, a dash for unknown, never a false zero."""

from __future__ import annotations

from datetime import datetime

UNKNOWN = "-"


def ms(value: float | None) -> str:
    """Milliseconds as a person reads them: "7.3 ms", "732 ms", "2.41 s"."""
    if value is None:
        return UNKNOWN
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"


def size(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return UNKNOWN


def count(value: float | None) -> str:
    """A whole number, or unknown."""
    return UNKNOWN if value is None else f"{value:.0f}"


def percent(value: float | None) -> str:
    """A share of one as percent."""
    return UNKNOWN if value is None else f"{value * 100:.0f} %"


def share(value: float | None) -> str:
    """A share of one as percent, where a tenth of one counts: never "100 %" of what is less."""
    if value is None:
        return UNKNOWN
    return "100 %" if value >= 1 else f"{min(value * 100, 99.9):.1f} %"


def age(then: datetime, now: datetime) -> str:
    """How long ago, by the server's clock: "12s", "3m", "2h"."""
    return span((now - then).total_seconds())


def span(seconds: float) -> str:
    """A duration in its largest unit."""
    seconds = max(0, seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def clock(at: datetime) -> str:
    """Local wall time of an event."""
    return at.astimezone().strftime("%H:%M:%S")


def moment(at: datetime) -> str:
    """Local date and wall time of what may be days ago."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
