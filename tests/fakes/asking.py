"""Who asks, as the verbs take it."""

from __future__ import annotations

from typing import TypedDict


class Who(TypedDict):
    """An operator and the face that they used."""

    actor: str
    source: str
