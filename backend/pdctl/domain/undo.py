"""Back to an earlier desired fleet, its standing orders included: pure.

Law: undoing is a change like any other: checked, rehearsed, numbered anew. History only grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pdctl.domain.change import Change, Changed, apply_to, current
from pdctl.domain.diff import words
from pdctl.domain.instance import Instance
from pdctl.domain.topology import FleetSpec


def go_back(past: FleetSpec, desired: FleetSpec, observed: Sequence[Instance]) -> Changed:
    """The fleet that is desired after returning to `past`; orders that name nothing are gone."""
    changed = apply_to(Change(fleet=past), desired, observed)
    if changed.refused:
        return changed
    here = {one.id: one for one in observed}
    now = replace(desired, orders=current(desired.orders, here))
    fleet = replace(changed.fleet, orders=current(past.orders, here))
    said = words(now, fleet)
    return Changed(fleet, (f"back to revision {past.revision}", *said) if said else ())
