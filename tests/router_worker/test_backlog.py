"""What is not put away is told again; what there is no room for is counted."""

from __future__ import annotations

from pdctl.domain.handoff import Suspect
from pdctl.router_worker.backlog import Backlog


def doubt(n: int) -> Suspect:
    return Suspect(f"decode-{n}", n, "refused")


def taken(backlog: Backlog, limit: int = 100) -> list[tuple[int, bool]]:
    return [(seq, again) for seq, _, again in backlog.take(limit)]


def test_each_reader_gets_all_that_is_kept() -> None:
    backlog = Backlog()
    for n in range(3):
        backlog.put(doubt(n))
    assert taken(backlog, 2) == [(1, False), (2, False)]
    backlog.acknowledge([1])
    backlog.rewind()
    assert taken(backlog) == [(2, True), (3, False)]
    assert taken(backlog) == []
    backlog.acknowledge([2, 3, 99])
    backlog.rewind()
    assert taken(backlog) == []
    assert (len(backlog), backlog.dropped) == (0, 0)


def test_without_room_the_oldest_goes() -> None:
    backlog = Backlog(capacity=3)
    for n in range(5):
        backlog.put(doubt(n))
    assert taken(backlog) == [(3, False), (4, False), (5, False)]
    assert backlog.dropped == 2
