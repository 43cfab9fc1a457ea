"""What `pdctl doctor` looks at: each check says what it saw and, when it is wrong, the fix.

Law: looks only; starts nothing but the engine's interpreter and nvidia-smi, changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

OK, INFO, WARN, BAD = "ok", "info", "warn", "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    level: str
    """ok | info (worth knowing) | warn (may hurt) | bad (will not work)"""
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """For --json; `ok` is false for what will not work."""
        return {**asdict(self), "ok": self.level != BAD}
