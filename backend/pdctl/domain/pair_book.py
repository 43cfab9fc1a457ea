"""The pairs of one fleet, in line with its instances and sorted by what a plan asks of them: pure.

Law: it holds what `pairing.sync` would give for the same instances, however many steps it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pdctl.domain import pairing
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Role

Key = tuple[InstanceId, InstanceId]
_OPEN = (pairing.UNTRIED, pairing.PROBING)


@dataclass(slots=True)
class PairBook:
    """Read `all`, `open`, `timed` and `proved`; change them by `put` and `sync`."""

    all: dict[Key, Pair] = field(default_factory=dict)
    open: dict[Key, Pair] = field(default_factory=dict)
    """Untried, or under probe."""
    timed: dict[Key, Pair] = field(default_factory=dict)
    """With a time for another probe."""
    proved: dict[Key, Pair] = field(default_factory=dict)
    _ends: dict[InstanceId, tuple[int, Role, str]] = field(default_factory=dict)
    """Whom it is in line with: generation, role, compat."""

    @classmethod
    def of(cls, instances: Sequence[Instance], pairs: Sequence[Pair]) -> PairBook:
        """The book of `instances`, with what `pairs` know of them."""
        all_ = {(pair.prefill, pair.decode): pair for pair in pairing.sync(instances, pairs)}
        return cls(
            all=all_,
            open={key: pair for key, pair in all_.items() if pair.state in _OPEN},
            timed={key: pair for key, pair in all_.items() if pair.retry_at is not None},
            proved={key: pair for key, pair in all_.items() if pair.state == pairing.OK},
            _ends=_ends(instances),
        )

    def put(self, new: Pair) -> None:
        """Learn how a pair is."""
        key = (new.prefill, new.decode)
        self.all[key] = new
        for part, belongs in (
            (self.open, new.state in _OPEN),
            (self.timed, new.retry_at is not None),
            (self.proved, new.state == pairing.OK),
        ):
            if belongs:
                part[key] = new
            else:
                part.pop(key, None)

    def sync(self, instances: Mapping[InstanceId, Instance]) -> None:
        """Follow `instances`: only pairs of ends that are others now are looked at."""
        ends = _ends(instances.values())
        if ends == self._ends:
            return
        moved = {id_ for id_ in ends.keys() | self._ends if ends.get(id_) != self._ends.get(id_)}
        known = {(pair.prefill, pair.decode): pair for pair in self._without(moved)}
        self._ends = ends
        here = [instances[id_] for id_ in ends]
        for one in [one for one in here if one.id in moved]:
            for pair in (*pairing.match([one], here, known), *pairing.match(here, [one], known)):
                self.put(pair)

    def _without(self, ends: Iterable[InstanceId]) -> Iterator[Pair]:
        """Take out, and give, the pairs of these ends."""
        for one in ends:
            for other in self._ends:
                for key in ((one, other), (other, one)):
                    if (pair := self.all.pop(key, None)) is not None:
                        for part in (self.open, self.timed, self.proved):
                            part.pop(key, None)
                        yield pair


def _ends(instances: Iterable[Instance]) -> dict[InstanceId, tuple[int, Role, str]]:
    return {
        one.id: (one.generation, one.role, one.compat)
        for one in instances
        if one.phase is not Phase.STOPPED
    }
