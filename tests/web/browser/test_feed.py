"""One event stream for all tabs of a browser; an hour of updates leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import expect

from pdctl.domain.lifecycle import Phase, Reason
from tests.web.browser.conftest import PATIENCE_MS, Site, Tab

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
expect.set_options(timeout=PATIENCE_MS)
Open = Callable[..., Any]
WARM, ROUNDS = 60, 300
"""Rounds of updates; a page that is watched has about one in ten seconds of them that change it."""
ROUND = """async (rounds) => {
  const topics = ["fleet", "state", "facts", "requests", "latency", "signals"];
  const watching = document.querySelectorAll('[hx-get][hx-trigger*="pd:"]').length;
  for (let round = 0; round < rounds; round += 1) {
    await new Promise((done) => {
      let left = watching;
      const one = () => {
        left -= 1;
        if (left) return;
        document.removeEventListener("htmx:after:swap", one);
        done();
      };
      document.addEventListener("htmx:after:swap", one);
      for (const topic of topics) document.body.dispatchEvent(new CustomEvent("pd:" + topic));
    });
  }
}"""


async def streams(site: Site, wanted: int) -> None:
    """Wait until so many are open."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while site.streams != wanted:  # noqa: ASYNC110 - counted in the server, no event for it
            await asyncio.sleep(0.05)


async def test_tabs_share_one_stream(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    second = await tab.page.context.new_page()
    await second.goto(site.url + "/instances/decode-2")
    await expect(second.locator("#stream-word")).to_have_text("live")
    await streams(site, 1)
    site.world.change("decode-2", Phase.UNKNOWN, Reason.UNHEALTHY, "told to both")
    await expect(second.locator("#live-instance")).to_contain_text("told to both")
    await expect(tab.page.locator("#row-decode-2")).to_contain_text("told to both")
    await tab.page.close()
    site.world.change("decode-2", Phase.READY, Reason.DESIRED, "told to the other")
    await expect(second.locator("#announce")).to_have_text("decode-2 is ready")
    await streams(site, 1)
    await second.goto("about:blank")
    await streams(site, 0)


async def test_a_page_of_its_own_stream_does_as_well(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs("about:blank")
    await tab.page.add_init_script("delete window.SharedWorker")
    await tab.page.goto(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    site.world.change("decode-2", Phase.UNKNOWN, Reason.UNHEALTHY, "told without a worker")
    await expect(tab.page.locator("#row-decode-2")).to_contain_text("told without a worker")
    await site.stop()
    await expect(tab.page.locator("#banner")).to_contain_text("No contact with pdctl")
    await site.start()
    await expect(tab.page.locator("#stream-word")).to_have_text("live")


async def test_back_and_forward_are_live_again(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/requests?outcome=ok")
    await tab.page.click("nav a >> text=Fleet")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await tab.page.go_back()
    await expect(tab.page).to_have_url(site.url + "/requests?outcome=ok")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await tab.page.go_forward()
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    site.world.change("decode-2", Phase.UNKNOWN, Reason.UNHEALTHY, "after going forward")
    await expect(tab.page.locator("#row-decode-2")).to_contain_text("after going forward")


@pytest.mark.parametrize("path", ["/", "/latency"])
async def test_an_hour_of_updates_leaves_nothing_behind(sites: Open, tabs: Open, path: str) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + path)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    cdp = await tab.page.context.new_cdp_session(tab.page)
    await cdp.send("Performance.enable")

    async def held() -> dict[str, float]:
        await cdp.send("HeapProfiler.collectGarbage")
        found = (await cdp.send("Performance.getMetrics"))["metrics"]
        return {one["name"]: one["value"] for one in found}

    async def update(rounds: int) -> None:
        for number in range(rounds // 20):
            site.world.change("decode-2", Phase.LOADING, Reason.DESIRED, f"step {number}")
            await tab.page.evaluate(ROUND, 20)

    await update(WARM)
    before = await held()
    await update(ROUNDS)
    after = await held()
    assert after["Nodes"] < before["Nodes"] * 1.25 + 200, (before["Nodes"], after["Nodes"])
    assert after["JSEventListeners"] < before["JSEventListeners"] * 1.25 + 50
    grown = after["JSHeapUsedSize"] - before["JSHeapUsedSize"]
    assert grown < 2 * 1024 * 1024, f"{grown / 1024:.0f} KiB in {ROUNDS} rounds"
    await tab.clean()
