"""What a bundle says of itself, and what is taken out of it before it leaves the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdctl.domain.redaction import MASK, is_secret, text

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The first thing in a bundle."""

    fleet: str
    simulated: bool
    since: float
    """Wall time (UTC seconds) at which it begins; what was desired goes further back."""
    until: float
    """Wall time at which it was made."""
    schema: str
    """The revision of the tables that its rows are of."""
    version: str
    """The pdctl that made it."""
    format: int = FORMAT


def masked(value: Any, name: str = "") -> Any:
    """`value` with what looks or is named like a secret masked, however deep it lies.

    References ("env:HF_TOKEN") stay: they say where a secret is, and not what it is.
    """
    if isinstance(value, dict):
        return {key: masked(one, key) for key, one in value.items()}
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str):
            return [value[0], masked(value[1], value[0])]  # a variable and its value
        return [masked(one) for one in value]
    if not isinstance(value, str):
        return value
    reference = value.startswith(("env:", "file:"))
    return MASK if is_secret(name) and value and not reference else text(value)
