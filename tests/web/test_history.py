"""History, audit, events and pairs in the browser."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from pdctl.domain.events import EventKind
from pdctl.domain.topology import Mode
from tests.web.conftest import Opener
from tests.web.site import Browser
from tests.web.test_operations import applied


async def changed(browser: Browser) -> None:
    await applied(browser, sizes={"decode": 4})
    await applied(browser, mode="chunked")


async def test_revisions_say_who_when_why_and_what(browser: Browser) -> None:
    await changed(browser)
    page = await browser.get("/history")
    for word in (
        "serve",
        "first start",
        "loopback",
        "decode 3 -> 4",
        "2p4d",
        "in force",
        "Chunked",
    ):
        assert word in page.text, word
    assert {"/history/1", "/history/1..2", "/history/2..3", "/history/1/undo"} <= set(page.links)
    assert "/history/3/undo" not in page.links, "it is in force"
    detail = await browser.get("/history/2")
    assert "pools.decode.size" in detail.text
    await browser.get("/history/99", status=404)


async def test_two_revisions_are_compared(browser: Browser) -> None:
    await changed(browser)
    answer = await browser.http.get("/history", params={"a": "1", "b": "3"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/history/1..3")
    page = await browser.get("/history/1..3")
    for word in ("pools.decode.size", "mode", "pdctl diff 1 3", "Go back to 1"):
        assert word in page.text, word
    assert (len(page.all("del")), len(page.all("ins"))) == (2, 2)
    assert "Both want the same fleet" in (await browser.get("/history/2..2")).text
    await browser.get("/history?a=x&b=2", status=400)


async def test_going_back_is_a_plan(browser: Browser) -> None:
    await changed(browser)
    question = await browser.get("/history/1/undo")
    for word in ("Go back to revision 1?", "2p4d → 2p3d", "pdctl undo --to 1"):
        assert word in question.text, word
    plan = browser.world.plane.plans.plans()[0]
    answer = await browser.post(f"/plans/{plan.id}/apply", question.fields)
    assert answer.status_code == 303
    desired = browser.world.state.fleet.desired
    assert (desired.pools[1].size, desired.mode, desired.revision) == (3, Mode.PD, 4)
    crossed = {"Sec-Fetch-Site": "cross-site"}
    assert (await browser.http.get("/history/2/undo", headers=crossed)).status_code == 403


async def test_a_store_that_fails_is_said_on_the_page(opened: Opener) -> None:
    browser: Browser = await opened("failing")
    assert "The disk is full" in (await browser.get("/history")).text
    assert "only entries held in memory" in (await browser.get("/audit")).text


async def test_the_audit_log_is_searched_paged_and_exported(browser: Browser) -> None:
    await changed(browser)
    refused = {"verb": "drain", "actor": "ada", "source": "tui", "outcome": "refused"}
    refused |= {"message": "decode-1 is <b>gone</b>", "about": ["decode-1"]}  # type: ignore[dict-item]
    browser.world.publish(EventKind.OPERATION, "fleet", refused)
    for query in ("verb=drain", "outcome=refused", "source=tui", "actor=ada", "subject=decode-1",
                  "text=GONE", "text=gone&verb=drain"):  # fmt: skip
        page = await browser.get(f"/audit?{query}")
        assert "decode-1 is <b>gone</b>" in page.text, query
        assert "<b>gone" not in page.html
        assert "decode 3 -> 4" not in page.text, query
        links = [a["href"] for a in page.all("a") if "download" in a]
        assert all(query.lower().split("&")[0].split("=")[1] in link.lower() for link in links)
        table, lines = [(await browser.http.get(link)).text for link in links]
        assert [row["actor"] for row in csv.DictReader(io.StringIO(table))] == ["ada"]
        assert [json.loads(line)["verb"] for line in lines.splitlines()] == ["drain"]
    assert "No entry matches" in (await browser.get("/audit?text=unheard")).text


async def test_the_audit_log_has_pages(browser: Browser) -> None:
    for number in range(60):
        data = {"verb": "clear", "actor": f"actor-{number:02}-", "outcome": "done"}
        browser.world.publish(EventKind.OPERATION, "decode-0", data)
    first = await browser.get("/audit?verb=clear")
    older = next(a["href"] for a in first.all("a") if a.get("rel") == "next")
    second = await browser.get(older)
    assert [f"actor-{n:02}-" in first.text for n in (59, 10, 9, 0)] == [True, True, False, False]
    assert [f"actor-{n:02}-" in second.text for n in (59, 10, 9, 0)] == [False, False, True, True]


async def test_events_are_filtered_and_every_rung_has_words(browser: Browser) -> None:
    for rung in ("out_of_rotation", "terminate", "kill"):
        data = {"rung": rung, "message": f"because of {rung}", "pool": "decode"}
        browser.world.publish(EventKind.STOP_RUNG, "decode-1", data)
    page = await browser.get("/events?kind=instance.stop_rung&about=decode-1")
    for word in ("Out of rotation", "Asked to end", "Killed", "because of kill"):
        assert word in page.text, word
    main = page.text[page.text.index("When") :]
    assert "Phase" not in main
    assert "Nothing matches" in (await browser.get("/events?about=nobody")).text
    one = await browser.get("/events?about=decode-0")
    assert "decode-1 " not in one.html[one.html.index("<tbody") : one.html.index("</tbody")]


async def test_events_have_pages(browser: Browser) -> None:
    for number in range(150):
        data = {"level": "info", "message": f"note-{number:03}-"}
        browser.world.publish(EventKind.NOTICE, "fleet", data)
    first = await browser.get("/events?kind=notice")
    older = next(a["href"] for a in first.all("a") if a.get("rel") == "next")
    second = await browser.get(older)
    found = [[f"note-{n:03}-" in page.text for n in (149, 50, 49, 0)] for page in (first, second)]
    assert found == [[True, True, False, False], [False, False, True, True]]


async def test_the_matrix_says_each_state_in_a_word_and_its_reason(browser: Browser) -> None:
    pairs = list(browser.world.state.fleet.pairs)
    pairs[1] = replace(pairs[1], state="quarantined", message="3 requests in a row failed")
    state = browser.world.state
    state.set_observed(list(state.fleet.instances), pairs, (), browser.world.feed.seq)
    page = await browser.get("/pairs")
    cells = [a for a in page.all("a") if "data-said" in a]
    assert len(cells) == 6
    assert "Quarantined" in page.text
    cell = next(a for a in cells if "3 requests in a row failed" in a["data-said"])
    chosen = await browser.get(cell["href"].partition("#")[0])
    assert chosen.all("section")[1]["id"] == "chosen"
    assert chosen.text.count("3 requests in a row failed") >= 2, "beside the pair and in the list"
    assert any(a.get("aria-current") == "true" and "data-said" in a for a in chosen.all("a"))


@pytest.mark.parametrize("query", ["", "?row=24&column=96"])
async def test_a_large_matrix_is_shown_in_parts(opened: Opener, query: str) -> None:
    browser: Browser = await opened("huge")
    page = await browser.get(f"/pairs{query}")
    assert len([a for a in page.all("a") if "data-said" in a]) == 24 * 24
    assert "prefill 73 to 80" in page.text
    first = "prefill-24" if query else "prefill-0"
    assert f">{first}</a>" in page.html


async def test_router_workers_are_on_the_fleet_page(browser: Browser) -> None:
    from pdctl.ports import RouterWorker

    worker = RouterWorker(slot=0, pid=4711, state="draining", version="0.9", inflight=3, dropped=0)
    assert "Router workers" not in (await browser.get("/")).text
    browser.world.plane.router_workers = lambda: [worker]
    page = await browser.get("/")
    for word in (
        "Router workers",
        "4711",
        "Draining",
        "0.9",
        "the engines behind them are simulated",
    ):
        assert word in page.text, word
