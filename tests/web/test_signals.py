"""Signals in the browser: what they mean, taken up and kept quiet by forms of our own only."""

from __future__ import annotations

from dataclasses import replace

from pdctl.domain.lifecycle import Phase
from pdctl.web.words import ticks
from tests.fakes.signals import look
from tests.web.site import Browser


def fail(browser: Browser) -> None:
    """decode-0 is given up, and that has been seen."""
    fleet = browser.world.state.fleet
    instances = [
        replace(one, phase=Phase.FAILED, message="bad <flag>") if one.id == "decode-0" else one
        for one in fleet.instances
    ]
    browser.world.state.set_observed(instances, fleet.pairs, (), fleet.seq)
    look(browser.world)


async def test_nothing_is_wrong_and_what_is_watched(browser: Browser) -> None:
    page = await browser.get("/signals")
    assert "Nothing is wrong" in page.text
    assert "kv_nearly_full" in page.text
    assert "vllm:nixl_num_kv_expired_reqs" in page.text
    assert "/signals" in page.links
    assert "signal" not in (await browser.get("/ui/state")).text


async def test_a_signal_says_what_it_means_and_leads_to_its_instance(browser: Browser) -> None:
    fail(browser)
    page = await browser.get("/signals")
    for said in ("Firing", "Critical", "An instance was given up", "bad <flag>", "Do:",
                 "pdctl clear decode-0"):  # fmt: skip
        assert said in page.text
    assert "/instances/decode-0" in page.links
    state = await browser.get("/ui/state")
    assert "1 signal" in state.text
    assert "/signals" in state.links
    assert "given_up:decode-0" in (await browser.get("/ui/signals")).text


def test_what_stands_between_backticks_is_code() -> None:
    assert ticks("Run `a b`, then `c`.") == [
        ("Run ", False), ("a b", True), (", then ", False), ("c", True), (".", False),
    ]  # fmt: skip
    assert ticks("nothing") == [("nothing", False)]


async def test_it_is_taken_up_by_a_form(browser: Browser) -> None:
    fail(browser)
    for path in ("/signals/ack?id=given_up%3Adecode-0", "/ui/signals/ack?id=given_up%3Adecode-0"):
        question = await browser.get(path)
        assert "pdctl signals ack given_up:decode-0" in question.text
    answer = await browser.post("/signals/ack", {**question.fields, "note": "on it"})
    assert answer.status_code == 303
    after = await browser.get(answer.headers["location"])
    assert "taken up by loopback" in after.text
    assert "on it" in after.text
    assert "signal" not in (await browser.get("/ui/state")).text
    history = await browser.get("/signals/history")
    assert "given_up" in history.text
    assert "on it" in history.text
    assert (await browser.post("/signals/ack", {"id": "given_up:decode-0"})).status_code == 403
    await browser.get("/signals/ack?id=nothing", status=404)


async def test_it_is_kept_quiet_and_heard_again(browser: Browser) -> None:
    fail(browser)
    question = await browser.get("/signals/silence?rule=given_up&subject=decode-0")
    fields = question.fields
    assert (await browser.post("/signals/silence", {**fields, "for_s": "1"})).status_code == 400
    answer = await browser.post("/signals/silence", {**fields, "for_s": "14400", "note": "upgrade"})
    assert answer.status_code == 303
    page = await browser.get("/signals")
    assert "silenced until" in page.text
    assert "upgrade" in page.text
    path = next(link for link in page.links if link.startswith("/signals/unsilence"))
    answer = await browser.post("/signals/unsilence", (await browser.get(path)).fields)
    assert answer.status_code == 303
    assert "silenced until" not in (await browser.get("/signals")).text


async def test_other_sites_change_nothing(browser: Browser) -> None:
    fail(browser)
    fields = (await browser.get("/signals/silence?rule=*&subject=*")).fields
    for path in ("/signals/ack", "/signals/silence", "/signals/unsilence"):
        data = {**fields, "id": "given_up:decode-0", "for_s": "3600"}
        answer = await browser.post(path, data, Origin="https://elsewhere.example")
        assert answer.status_code == 403
    assert browser.world.plane.signals is not None
    assert browser.world.plane.signals.loud() == 1
    assert browser.world.plane.signals.silences() == []


async def test_a_store_that_fails_is_said(browser: Browser) -> None:
    browser.world.store.failing = True
    assert "The disk is full" in (await browser.get("/signals/history")).text
