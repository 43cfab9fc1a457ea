"""Names what a fleet file says, so that an edited file is told from what was changed live: pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from pdctl.domain.topology import FleetSpec

_LIVE = frozenset(
    {"revision", "file_mode", "file_digest", "applied_digest", "orders", "source"}
)  # fmt: skip
"""Fields that no fleet file writes."""


def digest(file: FleetSpec) -> str:
    """Names what a file says; a field that a later pdctl adds changes nothing until it is used."""
    text = json.dumps(_spelt(file, skip=_LIVE), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _spelt(value: Any, skip: frozenset[str] = frozenset()) -> Any:
    """Plain data without what is left at its default."""
    if is_dataclass(value):
        return {
            one.name: _spelt(getattr(value, one.name))
            for one in fields(value)
            if one.name not in skip
            and (one.default is MISSING or getattr(value, one.name) != one.default)
        }
    return [_spelt(one) for one in value] if isinstance(value, tuple) else value
