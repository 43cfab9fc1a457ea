"""What readers hear of pairs whose ends come and go, without any probe taking place."""

from __future__ import annotations

from dataclasses import replace

from pdctl.control import observed as module
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.observed import Observed
from pdctl.domain import pairing
from pdctl.domain.events import EventKind
from pdctl.domain.ids import InstanceId, PoolName
from pdctl.domain.instance import Endpoint, Instance, Slot
from pdctl.domain.lifecycle import Phase, Reason, Trigger
from pdctl.domain.topology import Role
from tests.fakes.clock import VirtualClock
from tests.fakes.world import spec


def ready(id_: str, role: Role, port: int) -> Instance:
    return Instance(
        id=InstanceId(id_), pool=PoolName(role.value), role=role, slot=Slot(0, port, port + 1),
        endpoint=Endpoint("127.0.0.1", port, port + 1), phase=Phase.READY, reason=Reason.DESIRED,
        message="", since=0.0, generation=1, nonce=f"{id_}-1", fingerprint="",
    )  # fmt: skip


def fleet(decodes: int = 1) -> tuple[Observed, Feed]:
    clock = VirtualClock()
    feed = Feed(clock)
    seen = Observed(FleetState(spec()), feed, clock)
    seen.add(ready("prefill-0", Role.PREFILL, 9000))
    for number in range(decodes):
        seen.add(ready(f"decode-{number}", Role.DECODE, 9100 + 2 * number))
    for pair in seen.pairs:
        seen.put_pair(replace(pair, state=pairing.OK, last_ok=5.0, handoff_ms=3.0))
    return seen, feed


def told(feed: Feed) -> list[tuple[str, str]]:
    events = [one for one in feed.recent(10_000) if one.kind is EventKind.PAIR_CHANGED]
    return [(one.data["state"], one.data["message"]) for one in events]


def test_a_pair_is_paused_with_its_end_and_comes_back_with_it() -> None:
    seen, feed = fleet()
    decode = seen.get("decode-0")
    assert decode is not None
    drained = seen.move(decode, Trigger.DRAIN_BEGUN)
    assert told(feed)[-1] == ("paused", "decode-0 is draining")
    before = len(told(feed))
    seen.edit(drained, message="3 streams left")
    assert len(told(feed)) == before, "nothing new about the pair"
    seen.move(drained, Trigger.DRAIN_CANCELLED)
    assert told(feed)[-1] == ("ok", "")
    assert feed.recent(1)[0].data["last_ok"] == 5.0, "a pause proves nothing anew"
    assert seen.pairs[0].state == pairing.OK


def test_a_new_start_of_an_end_makes_the_pair_untried_and_says_so() -> None:
    seen, feed = fleet()
    decode = seen.get("decode-0")
    assert decode is not None
    seen.edit(decode, generation=2, nonce="decode-0-2", message="started anew")
    assert told(feed)[-1] == ("untried", "")


def test_in_a_big_fleet_one_event_stands_for_all() -> None:
    seen, feed = fleet(module.LOUD_PAIRS + 1)
    before = len(told(feed))
    prefill = seen.get("prefill-0")
    assert prefill is not None
    seen.move(prefill, Trigger.DRAIN_BEGUN)
    assert len(told(feed)) == before + 1
