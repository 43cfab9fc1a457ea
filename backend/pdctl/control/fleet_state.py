"""The one mutable cell: desired and observed, side by side, as immutable values.

Two writers only: `operations` writes what is desired, the reconciler writes what is observed.
Readers take one reference and keep it for as long as they like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pdctl.domain.actions import Wishes
from pdctl.domain.fleet import Fleet
from pdctl.domain.ids import Seq
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.topology import FleetSpec


class FleetState:
    """Holds the current `Fleet` and the operator's wishes about single instances."""

    def __init__(self, desired: FleetSpec) -> None:
        self._fleet = Fleet(desired)
        self._wishes = Wishes()
        self.adopted = False
        """What an earlier control plane left running has been read; the reconciler says so."""

    @property
    def fleet(self) -> Fleet:
        """The fleet as last seen; replaced as a whole, never edited."""
        return self._fleet

    @property
    def wishes(self) -> Wishes:
        """What operators want of single instances, beyond the desired fleet."""
        return self._wishes

    def set_desired(self, desired: FleetSpec, *, seq: int | None = None) -> None:
        """Written by operations only."""
        self._fleet = replace(
            self._fleet, desired=desired, seq=self._fleet.seq if seq is None else Seq(seq)
        )

    def set_wishes(self, wishes: Wishes) -> None:
        """Written by operations, and by the reconciler when it shuts the fleet down."""
        self._wishes = wishes

    def set_observed(
        self,
        instances: Sequence[Instance],
        pairs: Sequence[Pair],
        notes: Sequence[str],
        seq: int,
    ) -> None:
        """Written by the reconciler only."""
        self._fleet = replace(
            self._fleet,
            instances=tuple(instances),
            pairs=tuple(pairs),
            notes=tuple(notes),
            seq=Seq(seq),
        )
