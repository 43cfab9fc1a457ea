"""The observed fleet as one immutable snapshot; the router and the faces read one reference."""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.domain.ids import Seq
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import FleetSpec, Role

_RANK = (
    Phase.FAILED, Phase.BACKOFF, Phase.UNKNOWN, Phase.STOPPING, Phase.DRAINING, Phase.PENDING,
    Phase.STARTING, Phase.LOADING, Phase.WARMING, Phase.PROBING, Phase.READY, Phase.STOPPED,
)  # fmt: skip
"""Worst first: a pool is as healthy as its worst instance."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Desired and observed side by side, never mixed."""

    desired: FleetSpec
    instances: tuple[Instance, ...] = ()
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    """Why the planner could not do more, in sentences."""
    seq: Seq = Seq(0)  # noqa: RUF009 - a NewType call is the identity

    def instance(self, id_: str) -> Instance | None:
        """The instance called `id_`, or None."""
        return next((one for one in self.instances if one.id == id_), None)

    def ready(self, role: Role) -> tuple[Instance, ...]:
        """Instances of `role` that may take new work."""
        return tuple(
            one
            for one in self.instances
            if one.phase is Phase.READY and one.role in (role, Role.BOTH)
        )

    def pair(self, prefill: str, decode: str) -> Pair | None:
        """The state of one pair, or None when it was never listed."""
        return next(
            (one for one in self.pairs if one.prefill == prefill and one.decode == decode), None
        )


def worst(phases: tuple[Phase, ...]) -> Phase | None:
    """The phase that speaks for a group: the worst by rank; None for an empty group."""
    return min(phases, key=_RANK.index, default=None)
