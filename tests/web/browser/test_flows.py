"""What an operator does in a day, in Chromium, on a phone, a laptop and a wide screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.async_api import Page, expect

from pdctl.domain.lifecycle import Phase
from pdctl.domain.request_query import RequestQuery
from pdctl.domain.topology import Mode
from tests.fakes import signals
from tests.web.browser.conftest import PATIENCE_MS, Site, Tab
from tests.web.browser.test_console import mode_of

pytestmark = [
    pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("width", [390, 1280, 1920]),
]  # fmt: skip
expect.set_options(timeout=PATIENCE_MS)
Open = Callable[..., Any]
TOKEN = "s3cret-token"


async def fits(page: Page) -> None:
    """Nothing hangs out at the side."""
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(wide) <= 0


async def answer(page: Page, button: str, done: str) -> None:
    """Read the dialog, and press its button."""
    dialog = page.locator("#dialog")
    await expect(dialog).to_be_visible()
    await expect(dialog).to_contain_text("The same in a shell")
    await fits(page)
    await dialog.get_by_role("button", name=button).click()
    await page.wait_for_url(f"**done={done}**")
    await expect(page.locator(".flash")).to_be_visible()


async def test_resize_by_way_of_its_plan(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url, width)
    await tab.page.click("#more-decode")
    await expect(tab.page.locator("#dialog")).to_contain_text("pdctl resize decode")
    await answer(tab.page, "Apply", "applied")
    pool = site.world.state.fleet.desired.pool("decode")
    assert pool is not None
    assert pool.size == 4
    await tab.page.goto(site.url + "/operations")
    await tab.page.locator("main a[href*='/operations/op']").first.click()
    await expect(tab.page.locator("h1")).to_contain_text("decode 3 -> 4")
    await fits(tab.page)
    await tab.clean()


async def test_switch_the_mode_there_and_back(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url, width)
    await tab.page.click("#switch")
    await answer(tab.page, "Switch to Chunked", "chunked")
    assert mode_of(site) is Mode.CHUNKED
    await tab.page.click("#switch")
    await answer(tab.page, "Switch to PD", "pd")
    assert mode_of(site) is Mode.PD
    await tab.clean()


async def test_drain_and_undrain(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/instances/decode-1", width)
    await tab.page.get_by_role("link", name="Drain…", exact=True).click()
    await expect(tab.page.locator("#dialog")).to_contain_text("pdctl drain decode-1")
    await answer(tab.page, "Apply", "applied")
    assert "decode-1" in site.world.state.fleet.desired.orders.drained
    await tab.page.goto(site.url + "/change?undrain=decode-1")
    await tab.page.get_by_role("button", name="Apply").click()
    await expect(tab.page.locator(".flash")).to_be_visible()
    assert "decode-1" not in site.world.state.fleet.desired.orders.drained
    await tab.clean()


async def test_from_the_slowest_request_to_its_bars(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites()
    record = site.world.requests.query(RequestQuery(limit=1, path="pd", outcome="ok"))[0]
    tab: Tab = await tabs(site.url + "/requests?path=pd&outcome=ok", width)
    await tab.page.click(f"#r-{record.id} a.id")
    await expect(tab.page.locator("h1")).to_have_text(record.id)
    await expect(tab.page.locator(".waterfall .lane").first).to_be_visible()
    await expect(tab.page.locator("main")).to_contain_text("decode streaming")
    await fits(tab.page)
    await tab.page.go_back()
    await expect(tab.page).to_have_url(site.url + "/requests?path=pd&outcome=ok")
    await tab.clean()


async def test_take_up_a_signal(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites()
    fleet = site.world.state.fleet
    gone = [
        replace(one, phase=Phase.FAILED) if one.id == "decode-0" else one for one in fleet.instances
    ]
    site.world.state.set_observed(gone, fleet.pairs, (), fleet.seq)
    signals.look(site.world)
    tab: Tab = await tabs(site.url + "/signals", width)
    await tab.page.get_by_role("link", name="Take it up…").first.click()
    await tab.page.locator("#dialog input[name=note]").fill("replacing the card")
    await answer(tab.page, "Take it up", "taken_up")
    await expect(tab.page.locator("main")).to_contain_text("replacing the card")
    await fits(tab.page)
    await tab.clean()


async def test_sign_in_and_out(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites(token=TOKEN)
    tab: Tab = await tabs(site.url + "/requests", width)
    await tab.page.fill("input[name=token]", "wrong")
    await tab.page.click("text=Use the token")
    await expect(tab.page.locator(".failure")).to_contain_text("not accepted")
    await tab.page.fill("input[name=token]", TOKEN)
    await tab.page.click("text=Use the token")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    assert tab.page.url == site.url + "/requests", "back to where it was asked for"
    await fits(tab.page)
    await tab.page.click("text=Sign out")
    await expect(tab.page.locator("input[name=token]")).to_be_visible()


async def test_below_a_prefix_of_a_proxy(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites(root="/pd")
    tab: Tab = await tabs(site.url + "/pd/", width)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await tab.page.click("#switch")
    await answer(tab.page, "Switch to Chunked", "chunked")
    assert mode_of(site) is Mode.CHUNKED
    await tab.page.click("nav a >> text=Latency")
    await expect(tab.page.locator("#plot-ttft canvas")).to_be_visible()
    await expect(tab.page).to_have_url(site.url + "/pd/latency")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await tab.clean()


async def test_what_is_printed_is_the_page(sites: Open, tabs: Open, width: int) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/signals", width)
    await tab.page.emulate_media(media="print")
    for path in ("/signals", "/events", "/latency"):
        await tab.page.goto(site.url + path)
        await expect(tab.page.locator("h1")).to_be_visible()
        await expect(tab.page.locator(".top nav")).to_be_hidden()
        await expect(tab.page.locator("#theme")).to_be_hidden()
    await expect(tab.page.locator(".plot:visible")).to_have_count(0)
    await expect(tab.page.locator(".trend-lines").first).to_be_visible()
    await tab.clean()
