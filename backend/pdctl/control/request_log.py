"""The newest finished requests, in memory: a ring with filters.

Order is the order of finishing. Ids may repeat (clients choose them): `get` answers the newest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from pdctl.control.tally import Tally
from pdctl.domain.handoff import Path, RequestRecord
from pdctl.domain.request_query import ANY_SLO, RequestQuery


class RequestLog:
    """A ring of `capacity` records; older ones are the store's business."""

    def __init__(self, capacity: int = 2000) -> None:
        self._ring: deque[RequestRecord] = deque(maxlen=capacity)
        self._newest: dict[str, RequestRecord] = {}
        self.totals: Counter[tuple[str, str]] = Counter()
        """Requests since the start by (path, outcome)."""
        self.tally = Tally()
        """What else is counted of them."""

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def full(self) -> bool:
        """True when older records have been pushed out."""
        return len(self._ring) == self._ring.maxlen

    @property
    def oldest(self) -> RequestRecord | None:
        """The next record to be pushed out."""
        return self._ring[0] if self._ring else None

    def oldest_of(self, wanted: Callable[[RequestRecord], bool]) -> RequestRecord | None:
        """The oldest one that is `wanted`."""
        return next((record for record in self._ring if wanted(record)), None)

    def add(self, record: RequestRecord) -> None:
        """Append a finished request; the oldest makes room."""
        if self.full:
            gone = self._ring[0]
            if self._newest.get(gone.id) is gone:
                del self._newest[gone.id]
        self._ring.append(record)
        self._newest[record.id] = record
        self.totals[record.path.value, record.outcome.value] += 1
        self.tally.add(record)

    def get(self, id_: str) -> RequestRecord | None:
        """The newest record called `id_`, or None."""
        return self._newest.get(id_)

    def query(self, query: RequestQuery) -> list[RequestRecord]:
        """Newest first (or slowest first), filtered; nothing when `before` is not held."""
        ordered = arrange(reversed(self._ring), query)
        return ordered[: query.limit]


def arrange(newest_first: Iterable[RequestRecord], query: RequestQuery) -> list[RequestRecord]:
    """`newest_first` filtered, ordered and cut off at `query.before`; not yet limited.

    Only the oldest record of a repeated id ends the cut: paging moves on in every case.
    """
    every = list(newest_first)
    if query.slowest:
        every = [record for record in every if record.e2e_ms is not None]
        every.sort(key=lambda record: record.e2e_ms or 0.0, reverse=True)
    if query.before is not None:
        cut = next((n for n in reversed(range(len(every))) if every[n].id == query.before), None)
        every = [] if cut is None else every[cut + 1 :]
    return [record for record in every if matches(record, query)]


def matches(record: RequestRecord, query: RequestQuery) -> bool:
    """True when the record passes the filters (not the paging) of `query`."""
    return (
        (query.path is None or record.path.value == query.path)
        and (query.outcome is None or record.outcome.value == query.outcome)
        and (query.key is None or record.key == query.key)
        and (query.instance is None or any(leg.instance == query.instance for leg in record.legs))
        and (query.model is None or record.model == query.model)
        and (query.pair is None or pair_of(record) == query.pair)
        and (query.missed is None or _missed(record, query.missed))
        and (query.begins is None or record.id.startswith(query.begins))
        and (query.since is None or record.received_at >= query.since)
        and (query.until is None or record.received_at < query.until)
    )


def pair_of(record: RequestRecord) -> tuple[str, str] | None:
    """(prefill, decode) of a request that was handed over, the last of each."""
    if record.path is not Path.PD:
        return None
    last = {leg.kind: leg.instance for leg in record.legs}
    return (last.get("prefill", ""), last.get("decode") or last.get("whole") or "")


def _missed(record: RequestRecord, slo: str) -> bool:
    return any(slo in (ANY_SLO, name) for name, _ in record.slo_missed)
