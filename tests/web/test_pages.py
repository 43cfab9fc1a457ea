"""Every page in every state of the fleet: complete, well formed, linked, and equal to its parts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Path, RequestRecord
from pdctl.domain.request_query import RequestQuery
from pdctl.domain.topology import Mode
from tests.fakes.signals import look
from tests.web.conftest import Opener
from tests.web.site import Browser, Page

STATES = ("normal", "empty", "failing", "huge")


def some_request(browser: Browser) -> str:
    return browser.world.requests.query(RequestQuery(limit=1))[0].id


@pytest.mark.parametrize("state", STATES)
async def test_every_page_is_whole(opened: Opener, state: str) -> None:
    browser: Browser = await opened(state)
    look(browser.world)
    paths = [
        "/", "/requests", "/requests?slowest=1&limit=25", "/logs", "/mode?to=chunked", "/pairs",
        "/latency",
        "/operations", "/history", "/audit?verb=resize", "/events?kind=operation", "/reference",
        "/signals", "/signals/history", "/past", "/past?at=10+min+ago", "/past?at=never",
    ]  # fmt: skip
    if state != "empty":
        paths += ["/instances/prefill-0", f"/requests/{quote(some_request(browser))}"]
    for path in paths:
        page = await browser.get(path)
        assert not page.open, f"{path} leaves {page.open} open"
        assert len(page.all("h1")) == 1, path
        assert len(page.all("a")) > 8, path
        assert len(page.all("main")) == 1, path
        assert page.title.endswith("pdctl"), path
        assert all("scope" in head for head in page.all("th")), path
        assert len(page.all("caption")) == len(page.all("table")), path
        ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
        assert len(ids) == len(set(ids)), path
        assert "Traceback" not in page.text or state == "failing", path
        assert "None" not in re.sub(r"None fails|[Nn]one under way|No instance", "", page.text)


@pytest.mark.parametrize("state", STATES[:3])
async def test_a_fragment_is_what_its_page_includes(opened: Opener, state: str) -> None:
    browser: Browser = await opened(state)
    pairs = [
        ("/", "/ui/fleet"), ("/", "/ui/latency"), ("/?window=60", "/ui/latency?window=60"),
        ("/", "/ui/events"), ("/", "/ui/state"), ("/requests", "/ui/requests"),
        ("/requests?path=pd&limit=25", "/ui/requests?path=pd&limit=25"),
        ("/pairs", "/ui/pairs"), ("/operations", "/ui/operations"), ("/history", "/ui/history"),
        ("/signals", "/ui/signals"),
        ("/audit?text=x", "/ui/audit?text=x"), ("/latency?window=3600", "/ui/trends?window=3600"),
        ("/events?about=decode", "/ui/events/page?about=decode"),
    ]  # fmt: skip
    if state != "empty":
        pairs.append(("/instances/decode-1", "/ui/instances/decode-1"))
    for path, part in pairs:
        assert (await browser.text(part)).strip() in await browser.text(path), part


async def test_fragments_are_fetched_from_where_they_are(browser: Browser) -> None:
    for path in (
        "/", "/requests?outcome=ok", "/instances/prefill-0", "/operations",
        "/pairs?prefill=prefill-0&decode=decode-0", "/history", "/audit?verb=stop",
        "/events?kind=notice&about=decode-0",
    ):  # fmt: skip
        page = await browser.get(path)
        parts = [attrs["hx-get"] for _, attrs in page.tags if "hx-get" in attrs]
        assert parts, path
        for part in parts:
            assert part.startswith("/ui/")
            await browser.text(part)


async def test_every_link_leads_somewhere(browser: Browser) -> None:
    seen: set[str] = set()
    waiting = ["/"]
    while waiting and len(seen) < 90:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        answer = await browser.http.get(path)
        assert answer.status_code == 200, path
        if "text/html" in answer.headers["content-type"]:
            waiting += Page(answer.text).links
    assert {"/requests", "/logs", "/instances/prefill-0", "/reference", "/docs"} <= seen
    assert {"/pairs", "/operations", "/history", "/history/1", "/audit", "/events"} <= seen


async def test_the_fleet_page_says_what_matters(browser: Browser) -> None:
    page = await browser.get("/")
    for word in (
        "PD", "Switch to Chunked", "desired 3", "1 ready", "Ready", "Draining", "Loading",
        "loading weights 35 %", "simulated", "http://127.0.0.1:8000/v1", "TTFT", "p99",
        "18000 / 18200", "Degraded", "UTC",
    ):  # fmt: skip
        assert word in page.text or word in page.title, word
    assert page.title.startswith("▲ Degraded")
    assert "icon-warn.svg" in page.html


async def test_failing_and_empty_fleets_say_so(opened: Opener) -> None:
    failing = await (await opened("failing")).get("/")
    assert failing.title.startswith("✕ Down")
    assert "no free device" in failing.text
    assert "CUDA out of memory" in failing.text
    empty: Browser = await opened("empty")
    assert "none placed yet" in (await empty.get("/")).text
    assert "No request has ended yet" in (await empty.get("/requests")).text
    assert "There is no instance whose log could be shown" in (await empty.get("/logs")).text


async def test_many_instances_show_trouble_first(opened: Opener) -> None:
    page = (await (await opened("huge")).get("/")).html
    decodes = re.findall(r'id="row-(decode-\d+)"', page)
    assert len(decodes) == 120
    assert decodes[:2] == ["decode-118", "decode-119"]
    assert "too many for a grid" in page


async def test_request_filters_live_in_the_url(browser: Browser) -> None:
    page = await browser.get("/requests?path=pd&limit=25&instance=decode-0")
    rows = page.html.count('<tr id="r-')
    assert rows == page.html.count('class="path pd"') > 0
    older = next(a["href"] for a in page.all("a") if a.get("rel") == "next")
    assert "path=pd" in older
    assert "before=" in older
    second = await browser.get(older)
    assert set(re.findall(r'<tr id="(r-[^"]+)"', page.html)).isdisjoint(
        re.findall(r'<tr id="(r-[^"]+)"', second.html)
    )
    assert 'hx-get="/ui/requests' not in second.html


async def test_nonsense_in_a_filter_is_no_error(browser: Browser) -> None:
    await browser.get("/requests?path=nope&outcome=%00&limit=-1&slowest=maybe")
    await browser.get("/?window=yesterday")
    await browser.get("/latency?window=yesterday")
    await browser.get("/audit?verb=nope&before=-1&outcome=%00&text=%ff")
    await browser.get("/events?kind=nope&before=x&about=%00")
    await browser.get("/pairs?row=99&column=-3&prefill=nobody&decode=nobody")
    await browser.get("/operations?before=nothing")
    await browser.get("/logs?instance=nobody&tail=x")


async def test_a_request_is_opened_by_its_id(browser: Browser) -> None:
    id_ = some_request(browser)
    answer = await browser.http.get("/requests", params={"id": f" {id_} "})
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/requests/{quote(id_)}"
    assert id_ in (await browser.get(answer.headers["location"])).text


async def test_a_waterfall_says_how_each_bar_is_known(browser: Browser) -> None:
    query = RequestQuery(limit=1, path="pd", outcome="ok")
    record = browser.world.requests.query(query)[0]
    page = await browser.get(f"/requests/{record.id}")
    for word in ("prefill compute", "measured", "derived", "Handed over", "fewest tokens", "TTFT"):
        assert word in page.text, word
    assert 'fill="url(#hatch)"' in page.html


async def test_an_instance_page_has_its_first_failure(opened: Opener) -> None:
    page = await (await opened("failing")).get("/instances/prefill-0")
    for word in ("First failure", "torch.OutOfMemoryError", "Exit code 1", "Clear failures"):
        assert word in page.text, word


async def test_times_carry_their_zone(browser: Browser) -> None:
    page = await browser.get("/requests")
    times = page.all("time")
    assert times
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", one["datetime"]) for one in times)
    assert all(one["title"] == one["datetime"] for one in times)


async def test_every_link_keeps_the_prefix_of_a_proxy(opened: Opener) -> None:
    browser: Browser = await opened("normal", root_path="/pd")
    for path in (
        "/", "/requests", "/logs", "/mode?to=pd", "/pairs", "/operations", "/history", "/history/1",
        "/audit", "/events",
    ):  # fmt: skip
        page = await browser.get(path)
        inner = page.links + [a["action"] for a in page.all("form")]
        inner += [s["src"] for s in page.all("script")]
        inner += [
            value for _, attrs in page.tags for name, value in attrs.items() if "hx-get" in name
        ]
        assert [link for link in inner if not link.startswith("/pd/")] == [], path
        assert 'data-root="/pd"' in page.html


def changed(browser: Browser, **fields: Any) -> RequestRecord:
    """A known request as it might have been, added as the newest one."""
    known = browser.world.requests.query(RequestQuery(limit=1, path="pd", outcome="ok"))[0]
    one = replace(known, id="changed", **fields)
    browser.world.requests.add(one)
    browser.world.latency.add(one)
    return one


async def test_counted_tokens_are_shown_as_a_bound(browser: Browser) -> None:
    changed(
        browser, stream=True, completion_tokens=59, completion_derived=True, tpot_ms=12.0,
        prompt_tokens=None,
    )  # fmt: skip
    for path in ("/requests", "/requests/changed"):
        page = await browser.get(path)
        assert "≥ 59" in page.text, path
        assert "≤ 12 ms" in page.text, path
        assert "stream_options.include_usage" in page.html, path


async def test_what_passes_through_is_marked(browser: Browser) -> None:
    changed(browser, endpoint="/tokenize")
    for path in ("/requests", "/requests/changed"):
        assert "passed through" in (await browser.get(path)).text, path


async def test_latency_has_every_path(browser: Browser) -> None:
    changed(browser, path=Path.AGGREGATED, ttft_ms=50.0, e2e_ms=90.0)
    assert "Aggregated" in (await browser.get("/ui/latency")).text


@pytest.mark.parametrize(
    "path",
    [
        "/", "/requests", "/logs", "/instances/prefill-0", "/reference", "/pairs", "/operations",
        "/history", "/audit", "/events",
    ],
)  # fmt: skip
async def test_simulated_is_said_on_every_page(browser: Browser, path: str) -> None:
    assert "chip sim" in (await browser.get(path)).html


async def test_an_engine_inside_this_process_has_no_process(browser: Browser) -> None:
    desired = browser.world.state.fleet.desired
    inside = replace(desired.engine, launcher="simulated")
    browser.world.state.set_desired(replace(desired, engine=inside))
    page = await browser.get("/instances/prefill-0")
    for word in ("in-process (simulated)", "Nothing was started from this command"):
        assert word in page.text, word
    assert "Shim pid" not in page.text
    assert "in-process" in (await browser.get("/")).text


async def test_a_mode_change_is_told_once(browser: Browser) -> None:
    await browser.world.plane.operations.set_mode(Mode.CHUNKED, actor="loopback", source="web")
    page = await browser.get("/ui/events")
    assert page.text.count("Switch mode") == 1
    assert "Desired fleet" not in page.text


async def test_an_operation_is_told_by_its_change(browser: Browser) -> None:
    data = {"verb": "operation", "state": "done", "outcome": "done", "change": "decode 3 -> 4"}
    browser.world.publish(EventKind.OPERATION, "fleet", data)
    text = (await browser.get("/ui/events")).text
    assert "Operation ended ● Done decode 3 -> 4" in re.sub(r"\s+", " ", text)


async def test_commands_say_where_this_console_is(browser: Browser) -> None:
    for path in ("/instances/prefill-0", "/logs?instance=prefill-0", "/mode?to=chunked"):
        page = await browser.get(path)
        lines = [one["data-copy"] for one in page.all("button") if "data-copy" in one]
        lines = [line for line in lines if line.startswith("pdctl")]
        assert lines, path
        assert all(line.endswith(" --url http://127.0.0.1") for line in lines), lines


async def test_the_api_has_a_page_of_its_own(browser: Browser) -> None:
    page = await browser.get("/reference")
    for word in ("curl -N -H 'Accept: text/event-stream' http://127.0.0.1/api/v1/events", "PUT"):
        assert word in page.text, word
    icon = await browser.http.get("/favicon.ico")
    assert icon.status_code == 308
    await browser.text(icon.headers["location"])


async def test_no_crumb_leads_nowhere(browser: Browser) -> None:
    for path in ("/instances/prefill-0", f"/requests/{some_request(browser)}"):
        crumbs = re.search(r'<p class="crumbs">(.*?)</p>', (await browser.get(path)).html)
        assert crumbs
        assert not crumbs[1].rstrip().endswith("/")
