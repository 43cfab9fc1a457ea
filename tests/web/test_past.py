"""The page of a past moment, with what was told around it."""

from __future__ import annotations

from pdctl.control.minutes import Minutes
from pdctl.domain.lifecycle import Phase, Reason
from tests.fakes.clock import VirtualClock
from tests.web.conftest import Opener
from tests.web.site import Browser


async def test_a_past_moment_shows_its_instances_and_events(opened: Opener) -> None:
    browser: Browser = await opened("normal")
    world = browser.world
    plane, clock = world.plane, world.clock
    assert isinstance(clock, VirtualClock)
    plane.minutes = Minutes(plane.latency, plane.store, clock)  # type: ignore[arg-type]
    world.change("decode-0", Phase.DRAINING, Reason.SHUTDOWN, "asked to drain")
    await clock.advance(5)
    page = await browser.get("/past?at=1+s+ago&around=60")
    assert "Instances then" in page.text
    told = " ".join(page.text.split())
    assert "instance.changed decode-0 draining: asked to drain" in told
    assert page.all("form")
