"""Now, in UTC: the one place of this face that reads the wall clock (ages of what is shown)."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Wall time with its zone."""
    return datetime.now(UTC)
