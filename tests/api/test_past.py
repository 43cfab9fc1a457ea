"""The fleet at a past moment: from facts, and only from facts."""

from __future__ import annotations

import pytest
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError
from pdctl.control.minutes import Minutes
from pdctl.domain.lifecycle import Phase, Reason


@pytest.fixture(autouse=True)
def _kept(world: World, clock: VirtualClock) -> None:
    world.plane.minutes = Minutes(world.plane.latency, world.plane.store, clock)  # type: ignore[arg-type]


async def test_then_is_shown_as_it_was_and_now_is_not(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    await clock.advance(60)
    world.change("decode-0", Phase.DRAINING, Reason.SHUTDOWN, "asked to drain")
    await clock.advance(60)
    before, after = await client.past("90s"), await client.past("10 s ago")
    then, later = ({one.id: one for one in past.instances} for past in (before, after))
    assert later["decode-0"].phase == "draining"
    assert later["decode-0"].message == "asked to drain"
    assert later["decode-0"].since is not None
    assert then["decode-0"].phase != "draining"
    assert then["prefill-0"].phase == "ready"
    assert before.simulated
    assert before.at < after.at < after.now
    told = [one.subject for one in after.events if one.data.get("message") == "asked to drain"]
    assert told == ["decode-0"]


async def test_requests_of_that_time_are_listed_and_no_others(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    await clock.advance(600)
    past = await client.past("5m", around_s=60)
    assert all(past.since <= one.received_at < past.until for one in past.requests)


async def test_what_is_not_over_and_what_is_no_moment_is_refused(client: AdminClient) -> None:
    for at in ("2999-01-01", "yesterday-ish"):
        with pytest.raises(ClientError):
            await client.past(at)
