"""The console in Chromium: it fits every screen, lives by the feed, and survives the backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import expect

from pdctl.domain.change import Change
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.request_query import RequestQuery
from pdctl.domain.topology import Mode
from tests.fakes import signals
from tests.fakes.world import World
from tests.web.browser.conftest import PATIENCE_MS, Site, Tab

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
expect.set_options(timeout=PATIENCE_MS)
Open = Callable[..., Any]


async def paths(world: World) -> list[str]:
    """Every page, with something on it."""
    plans, made = world.plane.plans, []
    for size in (4, 5):
        change = Change(sizes=(("decode", size),))
        plan = await plans.make(change, actor="ada", source="web")
        made.append(await plans.apply(plan.id, actor="ada", source="web"))
    past, now = made
    world.publish(EventKind.STOP_RUNG, "decode-1", {"rung": "kill", "message": "it did not end"})
    signals.look(world)
    record = world.requests.query(RequestQuery(limit=1, path="pd", outcome="ok"))[0]
    return [
        "/", "/requests", f"/requests/{record.id}", "/latency", "/latency?by=pool", "/logs",
        "/router", "/instances/decode-1",
        "/mode?to=chunked", "/sign-in", "/pairs?prefill=prefill-0&decode=decode-1", "/operations",
        f"/operations/{past.id}", f"/operations/{now.id}", f"/operations/{now.id}/cancel",
        "/history", "/history/1", "/history/1..3", "/history/1/undo", "/audit", "/events",
        "/signals", "/signals/history", "/signals/silence?rule=stall&subject=decode-0",
        "/reference", "/change?pool=decode&size=2", "/nowhere",
    ]  # fmt: skip


def mode_of(site: Site) -> Mode:
    return site.world.state.fleet.desired.mode


@pytest.mark.parametrize("width", [360, 390, 1280, 1920])
async def test_every_page_fits_and_complains_of_nothing(
    sites: Open, tabs: Open, width: int
) -> None:
    site: Site = await sites()
    scheme = "dark" if width in (390, 1920) else "light"
    tab: Tab = await tabs(site.url + "/", width, color_scheme=scheme)
    for path in await paths(site.world):
        await tab.page.goto(site.url + path)
        await expect(tab.page.locator("#theme")).to_be_visible()
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await tab.page.evaluate(wide) <= 0, f"{path} is wider than {width} px"
        if path != "/nowhere":  # Chromium complains of a 404 itself
            await tab.clean()


@pytest.mark.parametrize("state", ["empty", "failing", "huge"])
async def test_other_states_fit_a_phone(sites: Open, tabs: Open, state: str) -> None:
    site: Site = await sites(state)
    tab: Tab = await tabs(site.url, 390)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await tab.page.evaluate(wide) <= 0
    await tab.clean()


async def test_what_happens_appears_by_itself(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    site.world.change("prefill-0", Phase.FAILED, Reason.CONFIG_ERROR, "no such quantisation")
    row = tab.page.locator("#row-prefill-0")
    await expect(row).to_contain_text("Failed")
    await expect(row).to_contain_text("vLLM refused its configuration")
    await expect(row).to_contain_text("no such quantisation")
    await expect(tab.page.locator("#live-events")).to_contain_text("no such quantisation")
    await expect(tab.page.locator("#announce")).to_have_text("prefill-0 is failed")
    await expect(tab.page).to_have_title("✕ Failing · Fleet · pdctl")
    assert "icon-bad" in (await tab.page.get_attribute("#favicon", "href") or "")
    await tab.clean()


async def test_a_burst_of_events_is_few_fetches(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    fetched: list[str] = []
    tab.page.on("request", lambda request: fetched.append(request.url))
    for round_ in range(40):
        site.world.change("decode-2", Phase.LOADING, Reason.DESIRED, f"step {round_}")
        await asyncio.sleep(0.05)
    await expect(tab.page.locator("#row-decode-2")).to_contain_text("step 39")
    fleets = [url for url in fetched if url.endswith("/ui/fleet")]
    assert 2 <= len(fleets) <= 12
    assert not [url for url in fetched if "/api/v1/events" in url]


async def test_switching_the_mode(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    watching: Tab = await tabs(site.url)
    await expect(watching.page.locator("#stream-word")).to_have_text("live")
    tab: Tab = await tabs(site.url)
    dialog = tab.page.locator("#dialog")
    await tab.page.click("#switch")
    await expect(dialog).to_be_visible()
    await expect(dialog).to_contain_text("pdctl mode chunked")
    await expect(dialog.locator("[data-close]")).to_be_focused()
    await tab.page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(tab.page.locator("#switch")).to_be_focused()
    assert mode_of(site) is Mode.PD
    await tab.page.keyboard.press("Enter")
    await dialog.get_by_role("button", name="Switch to Chunked").click()
    await expect(tab.page.locator(".flash")).to_contain_text("served whole")
    assert mode_of(site) is Mode.CHUNKED
    await expect(watching.page.locator("#switch")).to_contain_text("Switch to PD")
    await tab.clean()
    await watching.clean()


async def test_a_lost_backend_is_said_and_forgotten(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await site.stop()
    await expect(tab.page.locator("#banner")).to_contain_text("No contact with pdctl")
    await expect(tab.page.locator("#banner")).to_contain_text("What you see is as of")
    await expect(tab.page).to_have_title("? Stale · Fleet · pdctl")
    site.world.change("prefill-1", Phase.UNKNOWN, Reason.UNHEALTHY, "seen while away")
    await site.start()
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await expect(tab.page.locator("#banner")).to_be_hidden()
    await expect(tab.page.locator("#row-prefill-1")).to_contain_text("seen while away")
    assert "Stale" not in await tab.page.title()


async def test_a_dead_server_is_admitted_at_once_and_keeps_the_page(
    sites: Open, tabs: Open
) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    dialog = tab.page.locator("#dialog")
    await tab.page.click("#switch")
    await expect(dialog).to_be_visible()
    await site.stop()
    await dialog.get_by_role("button", name="Switch to Chunked").click()
    await expect(dialog.locator(".failure")).to_contain_text("whether this was done is not known")
    # Well below the four seconds that mere silence is given: a refused connection is no silence.
    await expect(tab.page.locator(".offline-only")).to_be_visible(timeout=2500)
    await expect(tab.page.locator("#state-word .badge").first).to_be_hidden()
    await expect(tab.page).to_have_title("? Stale · Fleet · pdctl")
    await tab.page.keyboard.press("Escape")
    for leaving in ("#switch", "nav a >> text=Requests", "#row-prefill-0 a"):
        await tab.page.click(leaving)
        await expect(tab.page.locator("#banner")).to_contain_text("No contact with pdctl")
        assert tab.page.url == site.url + "/"
    await site.start()
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await expect(tab.page.locator(".offline-only")).to_be_hidden()
    await tab.page.click("nav a >> text=Requests")
    await expect(tab.page).to_have_url(site.url + "/requests")


async def test_a_plan_is_read_and_applied_in_the_dialog(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url, width=390)
    dialog = tab.page.locator("#dialog")
    await tab.page.click("#more-decode")
    await expect(dialog).to_contain_text("Resize decode to 4?")
    await expect(dialog).to_contain_text("2p3d → 2p4d")
    wide = await tab.page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert not wide
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.locator("#more-decode")).to_be_focused()
    await tab.page.click("#more-decode")
    await expect(dialog).to_contain_text("Resize decode to 4?")
    await site.world.plane.operations.set_mode(Mode.CHUNKED, actor="somebody", source="cli")
    await dialog.get_by_role("button", name="Apply").click()
    await expect(dialog.locator(".failure")).to_contain_text("moved")
    assert tab.page.url == site.url + "/"
    await tab.page.keyboard.press("Escape")
    await tab.page.click("#more-decode")
    await dialog.get_by_role("button", name="Apply").click()
    await expect(tab.page.locator(".flash")).to_contain_text("being carried out")
    pool = site.world.state.fleet.desired.pool("decode")
    assert pool is not None
    assert pool.size == 4


async def test_a_page_opened_while_down_comes_by_itself(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await tab.page.add_init_script("delete window.SharedWorker")  # the page's own stream then
    await tab.page.route("**/api/v1/events**", lambda route: route.abort())
    await tab.page.goto(site.url + "/requests")
    await expect(tab.page.locator("#stream-word")).to_have_text("offline")
    await tab.page.unroute("**/api/v1/events**")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")


async def test_signed_out_stops_asking(sites: Open, tabs: Open) -> None:
    site: Site = await sites(token="s3cret-token")
    tab: Tab = await tabs(site.url)
    await tab.page.fill("input[name=token]", "s3cret-token")
    await tab.page.press("input[name=token]", "Enter")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await tab.clean()
    await tab.page.context.clear_cookies()
    site.world.change("prefill-0", Phase.DRAINING, Reason.OPERATOR, "")
    await expect(tab.page.locator("#banner")).to_contain_text("You are signed out")
    fetched: list[str] = []
    tab.page.on("request", lambda request: fetched.append(request.url))
    for _ in range(5):
        site.world.change("prefill-0", Phase.READY, Reason.DESIRED, "")
        await asyncio.sleep(0.5)
    assert fetched == []


async def test_theme_and_zone_are_remembered(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/requests", timezone_id="Asia/Tokyo", color_scheme="light")
    page = tab.page
    first = page.locator("main time[data-time]").first
    utc = await first.text_content()
    await page.click("#zone")
    assert await first.text_content() != utc
    await page.click("#theme")
    await page.click("#theme")
    await page.goto(site.url + "/")
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert await page.evaluate("document.documentElement.dataset.zone") == "local"
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(14, 18, 23)"
    await tab.clean()


async def test_what_the_reader_opened_stays_open(sites: Open, tabs: Open) -> None:
    site: Site = await sites("failing")
    tab: Tab = await tabs(site.url + "/instances/prefill-0")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await tab.page.locator("details summary").click()
    site.world.change("prefill-0", Phase.PENDING, Reason.OPERATOR, "trying again")
    await expect(tab.page.locator("#live-instance")).to_contain_text("trying again")
    assert await tab.page.locator("details").evaluate("node => node.open")
    await tab.clean()


async def test_a_log_is_followed(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url + "/logs?instance=prefill-0")
    await expect(tab.page.locator("#log-status")).to_contain_text("Following")
    path = site.world.plane.log_path("prefill-0", False)
    assert path is not None
    with path.open("a", encoding="utf-8") as log:
        log.write("ERROR \x1b[31m<b>new</b>\x1b[0m line\n")
    line = tab.page.locator("#log .line.bad").last
    await expect(line).to_have_text("ERROR <b>new</b> line\n")
    await tab.page.keyboard.press("/")
    await tab.page.keyboard.type("<b>new")
    await expect(tab.page.locator("#log .line:visible")).to_have_count(1)
    await tab.clean()


async def test_the_keyboard_is_enough(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await tab.page.keyboard.press("Tab")
    await expect(tab.page.locator(".skip")).to_be_focused()
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.locator("#main")).to_be_focused()
    await tab.page.keyboard.press("g")
    await tab.page.keyboard.press("r")
    await tab.page.wait_for_url("**/requests")
    await tab.page.keyboard.press("/")
    await tab.page.keyboard.type("nobody")
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.locator("h1")).to_be_visible()
    assert tab.page.url.endswith("/requests/nobody")


async def test_without_scripts_everything_is_there(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url, java_script_enabled=False)
    page = tab.page
    await expect(page.locator("#row-decode-0")).to_contain_text("Ready")
    await page.click("#switch")
    await expect(page.locator("h2").first).to_contain_text("Chunked?")
    await page.get_by_role("button", name="Switch to Chunked").click()
    await expect(page.locator(".flash")).to_be_visible()
    assert mode_of(site) is Mode.CHUNKED
    await page.goto(site.url + "/logs?instance=prefill-0")
    await expect(page.locator("#log")).to_contain_text("Engine 000")


async def test_a_hidden_tab_asks_for_nothing(sites: Open, tabs: Open) -> None:
    site: Site = await sites()
    tab: Tab = await tabs(site.url)
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    await tab.page.evaluate(hide, True)
    await asyncio.sleep(0.6)
    fetched: list[str] = []
    tab.page.on("request", lambda request: fetched.append(request.url))
    for _ in range(3):
        site.world.change("prefill-0", Phase.UNKNOWN, Reason.UNHEALTHY, "while hidden")
        await asyncio.sleep(0.8)
    assert fetched == []
    await tab.page.evaluate(hide, False)
    await expect(tab.page.locator("#row-prefill-0")).to_contain_text("while hidden")
    await expect(tab.page.locator("#stream-word")).to_have_text("live")
    await expect(tab.page.locator("#banner")).to_be_hidden()
    await tab.clean()
