"""The charts in Chromium: drawn by the library, and kept through what is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import expect

from tests.web.browser.conftest import PATIENCE_MS, Site, Tab

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
expect.set_options(timeout=PATIENCE_MS)
Open = Callable[..., Any]
INK = """(id) => {
  const canvas = document.querySelector("#" + id + " canvas");
  const found = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let at = 0; at < found.length; at += 4) {
    if (found[at + 3] === 255) colours.add([found[at], found[at + 1], found[at + 2]].join());
  }
  return [...colours];
}"""
REFRESH = """async () => {
  window.__before = document.querySelector("#plot-ttft canvas");
  const swapped = new Promise((done) =>
    document.addEventListener("htmx:after:swap", (e) => e.target.id === "live-trends" && done()));
  document.body.dispatchEvent(new CustomEvent("pd:latency"));
  await swapped;
  return document.querySelector("#plot-ttft canvas") === window.__before;
}"""


@pytest.mark.parametrize("width", [390, 1280, 1920])
async def test_charts_are_drawn_and_stay_through_a_refresh(
    sites: Open, tabs: Open, width: int
) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/latency", width, color_scheme="light")
    canvas = tab.page.locator("#plot-ttft canvas")
    await expect(canvas).to_be_visible()
    await expect(tab.page.locator(".trend-lines").first).to_be_hidden()
    assert "91,87,201" in await tab.page.evaluate(INK, "plot-ttft"), "the line of PD is not there"
    assert await tab.page.evaluate(REFRESH), "the drawing was thrown away"
    await expect(tab.page.locator("#plot-ttft .uplot")).to_have_count(1)
    box, panel = await canvas.bounding_box(), await tab.page.locator("#plot-ttft").bounding_box()
    assert box is not None
    assert panel is not None
    assert box["x"] + box["width"] <= panel["x"] + panel["width"] + 1
    await tab.clean()


async def test_the_theme_reaches_the_lines(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/latency", color_scheme="light")
    await expect(tab.page.locator("#plot-ttft canvas")).to_be_visible()
    await tab.page.click("#theme")
    await tab.page.click("#theme")
    await tab.page.wait_for_function(f"!({INK})('plot-ttft').includes('91,87,201')")


async def test_a_stretch_that_is_chosen_is_in_the_address(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/latency")
    over = tab.page.locator("#plot-ttft .u-over")
    box = await over.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    await tab.page.mouse.move(box["x"] + 200, middle)
    await tab.page.mouse.down()
    await tab.page.mouse.move(box["x"] + 400, middle, steps=5)
    await tab.page.mouse.up()
    await tab.page.wait_for_function("/^#t=[0-9]+[.][.][0-9]+$/.test(location.hash)")
    chosen = tab.page.url
    await tab.page.goto("about:blank")
    await tab.page.goto(chosen)
    await expect(tab.page.locator("#plot-ttft canvas")).to_be_visible()
    assert tab.page.url == chosen
    await tab.page.locator("#plot-ttft .u-over").dblclick()
    await tab.page.wait_for_function("location.hash === ''")
    await tab.clean()


async def test_without_scripts_the_server_draws(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/latency", java_script_enabled=False)
    await expect(tab.page.locator(".trend-lines").first).to_be_visible()
    await expect(tab.page.locator(".plot").first).to_be_hidden()
