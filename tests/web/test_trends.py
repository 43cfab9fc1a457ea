"""The latency page: goodput, whether KV moved, and two sides of a comparison."""

from __future__ import annotations

from dataclasses import replace

from pdctl.domain.handoff import Load, Outcome
from tests.domain.test_goodput import handed
from tests.web.site import Browser


async def test_goodput_says_who_met_it_and_why_the_rest_did_not(browser: Browser) -> None:
    for page in ("/latency?window=3600", "/ui/trends?window=3600"):
        text = (await browser.get(page)).text
        assert "requests within each objective" in text
        assert "chat all" in text
        assert "prefill" in text


async def test_pinned_kv_and_silent_recomputes_are_named(browser: Browser) -> None:
    world = browser.world
    world.load = Load(1, held={"prefill-0": (3, world.clock.monotonic() - 2.0)})
    gone = handed(id="gone-1", received_at=world.clock.now(), outcome=Outcome.CLIENT_GONE)
    world.plane.truth.add(replace(gone, legs=gone.legs[:1]))
    text = (await browser.get("/latency")).text
    assert "KV of 3 requests waits to be pulled" in text
    assert "gone-1" in text
    assert "decode was never asked" in text


async def test_two_sides_with_intervals_or_why_not(browser: Browser) -> None:
    page = (await browser.get("/latency?window=300&a=mode:chunked@all&b=mode:pd@all")).text
    assert "Latency of mode:chunked@all and mode:pd@all side by side" in page
    assert "each are needed" in page
    assert "[" in page.split("B is")[1]
    wrong = (await browser.get("/latency?a=all@nowhere&b=all")).text
    assert "is no mark, no duration and no moment" in wrong
