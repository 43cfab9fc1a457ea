"""Changing the fleet from a browser: every change is a plan first, and is applied by its id."""

from __future__ import annotations

import json
import shlex
from urllib.parse import quote

import pytest

from tests.web.site import Browser

RESIZE = "/change?pool=decode&size=4"


async def test_a_pool_is_resized_by_a_plan_without_scripts(browser: Browser) -> None:
    fleet = await browser.get("/")
    assert {"/change?pool=decode&size=2", RESIZE} <= set(fleet.links)
    before = browser.world.state.fleet.desired
    question = await browser.get(RESIZE)
    assert browser.world.state.fleet.desired is before, "asking changes nothing"
    for word in (
        "Resize decode to 4?",
        "2p3d → 2p4d",
        "launch",
        "decode-3",
        "pdctl resize decode=4",
    ):
        assert word in question.text, word
    plan = browser.world.plane.plans.plans()[0]
    assert (plan.author, plan.source) == ("loopback", "web")
    answer = await browser.post(f"/plans/{plan.id}/apply", question.fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?done=applied")
    pool = browser.world.state.fleet.desired.pool("decode")
    assert pool is not None
    assert pool.size == 4
    after = await browser.get("/?done=applied")
    assert "The plan is being carried out" in after.text
    assert "of about" in after.text, "how far it is"


async def test_the_shown_request_makes_the_same_plan(browser: Browser) -> None:
    page = await browser.get(RESIZE)
    lines = [one["data-copy"] for one in page.all("button") if "data-copy" in one]
    line = next(line for line in lines if line.startswith("curl") and line.endswith("/plans"))
    words = shlex.split(line)
    body = json.loads(words[words.index("-d") + 1])
    assert body == {"change": {"sizes": {"decode": 4}}}
    made = await browser.http.post("/api/v1/plans", json=body)
    assert made.json()["shape_after"] == "2p4d"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("restart=decode-0", ["Restart decode-0?", "pdctl restart decode-0"]),
        ("drain=prefill-1", ["Keep prefill-1 out of rotation?", "pdctl drain prefill-1"]),
        ("stop=prefill-1", ["Stop prefill-1 for good?", "2p3d → 1p3d"]),
        ("move=prefill-1&to=decode", ["Move prefill-1 to decode?", "--role decode"]),
    ],
)
async def test_verbs_on_one_instance(browser: Browser, query: str, words: list[str]) -> None:
    for path in ("/change?", "/ui/change?"):
        page = await browser.get(path + query)
        for word in words:
            assert word in page.text, word


async def test_what_cannot_be_is_said_and_not_offered(browser: Browser) -> None:
    page = await browser.get("/change?pool=nobody&size=1")
    assert 'class="failure"' in page.html
    assert "nobody" in page.text
    assert "Apply" not in page.text


async def test_a_plan_whose_world_moved_is_refused(browser: Browser) -> None:
    question = await browser.get(RESIZE)
    plan = browser.world.plane.plans.plans()[0]
    await browser.get("/")
    await browser.http.put("/api/v1/mode", json={"mode": "chunked"})
    answer = await browser.post(f"/plans/{plan.id}/apply", question.fields)
    assert answer.status_code == 409
    pool = browser.world.state.fleet.desired.pool("decode")
    assert pool is not None
    assert pool.size == 3


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/change", 404), ("/change?pool=decode", 400), ("/change?pool=decode&size=x", 400),
        ("/change?pool=decode&size=-1", 400), ("/change?restart=" + "x" * 300, 400),
    ],
)  # fmt: skip
async def test_nonsense_is_refused_in_words(browser: Browser, path: str, status: int) -> None:
    await browser.get(path, status=status)


async def test_other_sites_have_no_plans_made(browser: Browser) -> None:
    answer = await browser.http.get(RESIZE, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert not browser.world.plane.plans.plans()


async def test_hostile_names_stay_text(browser: Browser) -> None:
    page = await browser.get("/change?restart=" + quote("<b>x; rm -rf ~</b>"), status=200)
    assert "<b>x" not in page.html
    lines = [one["data-copy"] for one in page.all("button") if "data-copy" in one]
    assert "<b>x; rm -rf ~</b>" in [word for line in lines for word in shlex.split(line)]
