"""Engines that live and answer nothing (a stopped process, a wedged loop): pure.

Law: silence is not death. A silent instance is passed over while any other answers (whatever its
role, it can serve requests whole), and is back at its first answer; only when work hangs on it for
long is it taken for hung.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase

HUNG_S = 120.0
"""Seconds of silence, requests on it, after which an instance counts as hung."""
LOST_S = 300.0
"""The same without any request on it."""


def is_silent(one: Instance) -> bool:
    """True while it has not answered for some seconds."""
    return one.vitals.silent_since is not None


def passed_over(instances: Sequence[Instance]) -> list[Instance]:
    """READY instances that get no new requests, for they are silent and another one answers."""
    ready = [one for one in instances if one.phase is Phase.READY]
    silent = [one for one in ready if is_silent(one)]
    return silent if len(silent) < len(ready) else []


def hung_at(one: Instance) -> float | None:
    """When it is to be taken for hung (monotonic seconds) if it stays silent; None when not."""
    since = one.vitals.silent_since
    if since is None:
        return None
    busy = one.vitals.busy_at
    if one.inflight or (busy is not None and busy >= since):
        return since + HUNG_S
    return since + LOST_S if one.phase is not Phase.DRAINING else None
