"""An applied plan as it is kept: what it wants, what was foreseen, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pdctl.domain.rehearsal import Rest, Step


class RunState(StrEnum):
    """How far it is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """An instance of it was given up; the desired fleet stays until it is changed."""
    CANCELLED = "cancelled"
    """Taken back, or another change took its place."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run at one moment; the API calls it an operation."""

    id: str
    plan: str
    revision: int
    """Of the desired fleet that it brings about; no other run has it."""
    said: tuple[str, ...]
    actor: str
    source: str
    started_at: float
    """Wall time, UTC seconds."""
    steps: tuple[Step, ...]
    about: tuple[str, ...] = ()
    """Instances and pools that the change names."""
    broken_before: tuple[str, ...] = ()
    """Instances that were given up before it began."""
    state: RunState = RunState.RUNNING
    message: str = ""
    ended_at: float | None = None
    done: tuple[int, ...] = ()
    """Numbers of the steps that have happened."""
    resumed: int = 0
    """How often a restarted pdctl took it up again."""
    rest: Rest | None = None
    """What follows `steps` and was not foreseen step by step."""
    in_place: int = 0
    """Of the instances that `rest` counts: how many are as they shall be."""
