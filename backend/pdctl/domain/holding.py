"""What an operator keeps out of rotation: drained, alive, and in its seat until it is undrained.

Law: the last of a role is not taken; what is to be replaced, or has no seat, is held no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pdctl.domain import seats, upkeep
from pdctl.domain.actions import Drain
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode, Role


class Draft(upkeep.Draft, Protocol):
    """The plan in the making, as far as holding needs it."""

    observed: Sequence[Instance]
    kept: set[str]
    ready: set[InstanceId]
    lost: set[InstanceId]

    @property
    def closing(self) -> bool:
        """True while the whole fleet is shut down."""

    def is_stale(self, one: Instance) -> bool:
        """True when this start of it is to be replaced."""

    def strands(self, one: Instance) -> bool:
        """True when a wanted role has nobody else."""

    def deadline(self, one: Instance) -> float:
        """When a drain of it that begins now stops waiting."""

    def farewell(self, one: Instance) -> tuple[Reason, str]:
        """Why it has to go."""


def is_held(one: Instance) -> bool:
    """True for an instance that is kept out of rotation now."""
    return one.phase is Phase.DRAINING and one.reason is Reason.HELD


def wanted(draft: Draft, one: Instance) -> bool:
    """True when `one` should be out of rotation and stay alive."""
    ordered = one.id in draft.desired.orders.drained and one.id in draft.kept
    return ordered and not draft.is_stale(one) and not draft.closing


def can_spare(draft: Draft, one: Instance) -> bool:
    """True when others serve its role, or are on their way to."""
    drained, chunked = draft.desired.orders.drained, draft.desired.mode is Mode.CHUNKED
    return not draft.strands(one) or any(
        other.id in draft.kept
        and other.id not in drained
        and other.phase is not Phase.FAILED
        and (Role.BOTH in (other.role, one.role) or other.role is one.role or chunked)
        for other in draft.observed
        if other.id != one.id
    )


def hold(draft: Draft, one: Instance) -> None:
    """Take it out of rotation, for as long as the operator likes."""
    message = f"an operator keeps it out of rotation until `pdctl undrain {one.id}`"
    draft.ready.discard(one.id)
    draft.actions.append(Drain(one.id, Reason.HELD, message, draft.deadline(one)))


def begin(draft: Draft, one: Instance) -> None:
    """Hold a READY instance, unless it is the last that serves its role."""
    if one.phase is not Phase.READY or one.id in draft.lost or not wanted(draft, one):
        return
    if draft.strands(one):
        draft.notes.append(f"{one.id} is not drained: it is the last ready {one.role}")
    else:
        hold(draft, one)


def keep(draft: Draft, one: Instance) -> bool:
    """Look after one that is DRAINING; True when it is not to be stopped or called back now."""
    if wanted(draft, one):
        if one.reason is Reason.HELD:
            upkeep.sick(draft, one)
            return True
        if one.reason not in seats.RETURNING:
            hold(draft, one)
            return True
    elif is_held(one) and (one.id not in draft.kept or draft.is_stale(one)):
        why, message = draft.farewell(one)
        draft.actions.append(Drain(one.id, why, message, draft.deadline(one)))
        return True
    return False
