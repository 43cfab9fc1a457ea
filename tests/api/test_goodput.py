"""Goodput over the API: what the faces rely on."""

from __future__ import annotations

import pytest
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import NotFound


async def test_each_objective_by_mode_and_pool(client: AdminClient, world: World) -> None:
    page = await client.goodput(window_s=None)
    assert [one.name for one in page.slos] == ["chat"]
    assert page.simulated
    found = {one.by: one for one in page.items}
    assert {"all", "mode:pd", "pool:decode"} <= set(found)
    everyone = found["all"]
    assert everyone.met > 0
    assert everyone.missed == sum(everyone.causes.values()) > 0
    assert everyone.share == pytest.approx(everyone.met / (everyone.met + everyone.missed))
    missed = [one for one in world.store.records if one.slo_missed]
    assert len(missed) == everyone.missed


async def test_a_window_of_the_past_is_empty_not_zero(
    client: AdminClient, clock: VirtualClock
) -> None:
    await clock.advance(7200)
    (one,) = (await client.goodput(["chat"], ["all"], 60)).items
    assert (one.met, one.missed, one.share) == (0, 0, None)


async def test_an_unknown_objective_is_named_with_those_that_are(client: AdminClient) -> None:
    with pytest.raises(NotFound, match="no objective 'chatt'") as refused:
        await client.goodput(["chatt"])
    assert "chat" in str(refused.value.problem)
