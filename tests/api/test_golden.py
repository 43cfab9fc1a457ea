"""Golden checks over the API."""

from __future__ import annotations

import pytest
from tests.control.test_golden import Engines
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict, Failed
from pdctl.control.golden import GoldenChecks
from pdctl.domain.golden import Answer


async def test_a_check_and_the_list_of_checks(client: AdminClient, world: World) -> None:
    engines = Engines((Answer("ab", (1, 2)), Answer("ac", (1, 3))))
    world.plane.golden = GoldenChecks(world.state, world.feed, world.clock, engines)
    found = await client.check_golden("prefill-0", "decode-0")
    assert (found.equal, found.differs_at, found.whole, found.handed_over) == (False, 1, "2", "3")
    page = await client.golden_checks()
    assert page.items == [found]
    assert page.simulated
    assert page.every_s is None
    with pytest.raises(Conflict):
        await client.check_golden("prefill-0", "nobody")
    with pytest.raises(Failed, match="two ends"):
        await client.check_golden("prefill-0")


async def test_without_engines_it_is_refused(client: AdminClient, world: World) -> None:
    world.plane.golden = None
    with pytest.raises(Conflict):
        await client.golden_checks()
