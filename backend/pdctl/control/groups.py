"""By what requests are grouped when they are counted: everywhere under the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pdctl.connectors import PD_ENDPOINTS
from pdctl.domain.handoff import Leg, RequestRecord

KINDS = ("all", "mode", "pool", "model", "instance", "pair")
"""What is before the colon of a group, in the order in which groups are listed."""
PoolOf = Callable[[str], str]
"""Instance id -> pool."""


def pool_by_name(instance_id: str) -> str:
    """The pool in an instance's id: "decode-0" belongs to "decode"."""
    return instance_id.rpartition("-")[0] or instance_id


def generates(record: RequestRecord) -> bool:
    """True when a model was asked to write; what passes through (/tokenize, /version) is not."""
    return record.endpoint in PD_ENDPOINTS


def groups_of(record: RequestRecord, legs: Sequence[Leg], pool_of: PoolOf) -> list[str]:
    """Every group that a record belongs to; `legs` are its final ones."""
    ids = sorted({leg.instance for leg in legs})
    pools = sorted({pool_of(id_) for id_ in ids})
    found = ["all", f"mode:{record.path.value}"]
    found += [f"pool:{name}" for name in pools]
    if legs:  # else it is any name that a client made up
        found.append(f"model:{record.model}")
    found += [f"instance:{id_}" for id_ in ids]
    if len(legs) == 2 and legs[0].kind == "prefill":
        found.append(f"pair:{legs[0].instance}>{legs[1].instance}")
    return found


def listed(seen: set[str]) -> list[str]:
    """Groups in the order of their kinds, then by name."""
    order = {kind: place for place, kind in enumerate(KINDS)}
    return sorted(seen, key=lambda by: (order.get(by.partition(":")[0], len(order)), by))
