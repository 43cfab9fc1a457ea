"""Every page is usable with a keyboard and a screen reader, as far as axe-core can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.fakes import signals
from tests.web.browser.conftest import Site, Tab
from tests.web.browser.test_console import paths

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (tags) => (await axe.run(document, { runOnly: tags })).violations
  .map((one) => [one.impact, one.id, one.nodes.map((node) => node.html).slice(0, 3)])"""
Open = Callable[..., Any]


async def violations(page: Page) -> list[list[Any]]:
    """What axe-core finds on the page as it is: impact, rule, and the first places."""
    await page.evaluate(AXE)
    found: list[list[Any]] = await page.evaluate(RUN, TAGS)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_no_page_shuts_anybody_out(sites: Open, tabs: Open, scheme: str, width: int) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url, width, color_scheme=scheme)
    for path in await paths(site.world):
        await tab.page.goto(site.url + path)
        await expect(tab.page.locator("#theme")).to_be_visible()
        assert await violations(tab.page) == [], path


@pytest.mark.parametrize("state", ["empty", "failing"])
async def test_no_state_of_the_fleet_does_either(sites: Open, tabs: Open, state: str) -> None:
    site: Site = await sites(state)
    tab: Tab = await tabs(site.url, color_scheme="dark")
    signals.look(site.world)
    for path in (
        "/", "/pairs", "/operations", "/history", "/audit", "/events", "/requests", "/signals",
    ):  # fmt: skip
        await tab.page.goto(site.url + path)
        await expect(tab.page.locator("#theme")).to_be_visible()
        assert await violations(tab.page) == [], path


async def test_an_open_dialog_does_not_either(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await tab.page.click("#more-decode")
    await expect(tab.page.locator("#dialog")).to_contain_text("Resize decode to 4?")
    assert await violations(tab.page) == []


async def test_what_is_wrong_would_be_found(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/pairs")
    await tab.page.evaluate("document.querySelector('main').append(new Image())")
    assert [rule for _, rule, _ in await violations(tab.page)] == ["image-alt"]
