"""Standing orders in an operator's words: what a change of them asks for. Pure.

Law: whoever reads them need not know how an order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.topology import Orders

Start = tuple[InstanceId, int]
One = TypeVar("One")


def words(before: Orders, after: Orders) -> list[str]:
    """What differs, one sentence for each instance."""
    moved, was = _moves(after), _moves(before)
    said = [f"{id_} is kept out of rotation" for id_ in _new(before.drained, after.drained)]
    said += [f"{id_} may work again" for id_ in _new(after.drained, before.drained)]
    said += [f"{_start(one)} goes for good" for one in _new(before.leaving, after.leaving)]
    said += [
        f"{_start(one)}: its departure is done or called off"
        for one in _new(after.leaving, before.leaving)
    ]
    said += [
        f"{_start(one)} works in pool {pool}" for one, pool in moved.items() if was.get(one) != pool
    ]
    said += [f"{_start(one)} works in its own pool" for one in was if one not in moved]
    said += [f"{_start(one)} is started anew" for one in _new(before.renew, after.renew)]
    said += [
        f"{_start(one)}: its new start is done or called off"
        for one in _new(after.renew, before.renew)
    ]
    return said


def _moves(orders: Orders) -> dict[Start, PoolName]:
    return {(id_, generation): pool for id_, generation, pool in orders.moved}


def _new(old: Sequence[One], new: Sequence[One]) -> list[One]:
    return [one for one in new if one not in old]


def _start(one: Start) -> str:
    return f"{one[0]} (start {one[1]})"
