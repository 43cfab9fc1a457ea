"""Operations in the browser: seen, followed step by step, and taken back through a plan."""

from __future__ import annotations

from pdctl.contract.plans import ChangeBody, OperationView
from pdctl.domain.events import EventKind
from tests.web.site import Browser


async def applied(browser: Browser, **change: object) -> OperationView:
    body = ChangeBody.model_validate(change).model_dump(mode="json", exclude_defaults=True)
    plan = (await browser.http.post("/api/v1/plans", json={"change": body})).json()
    answer = await browser.http.post(f"/api/v1/plans/{plan['id']}/apply")
    assert answer.status_code == 202, answer.text
    return OperationView.model_validate(answer.json())


async def test_operations_are_listed_running_first(browser: Browser) -> None:
    empty = await browser.get("/operations")
    assert "Nothing has been applied yet" in empty.text
    first = await applied(browser, sizes={"decode": 4})
    second = await applied(browser, sizes={"decode": 5})
    page = await browser.get("/operations")
    html = page.html[page.html.index("<main") :]
    assert html.index("Under way") < html.index(second.id) < html.index("Past")
    assert html.index(first.id) > html.index("Past")
    assert "revision 3 took its place" in page.text
    assert {f"/operations/{first.id}", f"/operations/{second.id}/cancel"} <= set(page.links)
    assert second.id in (await browser.get("/")).html, "the fleet page leads to it"


async def test_each_step_says_whether_it_was_seen(browser: Browser) -> None:
    one = await applied(browser, sizes={"decode": 4})
    page = await browser.get(f"/operations/{one.id}")
    for word in ("Running", "decode 3 -> 4", "Next", "To come", "decode-3", "loopback", "REST"):
        assert word in page.text, word
    assert "Seen" not in page.text.replace("Steps seen", "")
    data = {"phase": "warming", "reason": "desired", "message": "", "pool": "decode"}
    browser.world.publish(EventKind.INSTANCE_CHANGED, "decode-3", data)
    assert "● Seen" in (await browser.get(f"/ui/operations/{one.id}")).text
    await browser.get("/operations/op-nothing", status=404)


async def test_cancelling_shows_the_way_back_and_takes_it(browser: Browser) -> None:
    one = await applied(browser, sizes={"decode": 4})
    for path in (f"/operations/{one.id}/cancel", f"/ui/operations/{one.id}/cancel"):
        question = await browser.get(path)
        for word in (f"Cancel {one.id}?", "2p4d → 2p3d", f"pdctl cancel {one.id}"):
            assert word in question.text, word
    assert browser.world.state.fleet.desired.pools[1].size == 4, "asking changes nothing"
    answer = await browser.post(f"/operations/{one.id}/cancel", question.fields)
    assert answer.status_code == 303
    after = await browser.get(answer.headers["location"])
    assert "The operation was cancelled" in after.text
    assert "cancelled by loopback" in after.text
    assert browser.world.state.fleet.desired.pools[1].size == 3
    again = await browser.post(f"/operations/{one.id}/cancel", question.fields)
    assert again.status_code == 409
    assert "cannot be cancelled" in again.text


async def test_a_cancel_whose_way_back_is_not_known_can_still_be_asked_for(
    browser: Browser,
) -> None:
    one = await applied(browser, sizes={"decode": 4})
    browser.world.store.saved = browser.world.store.saved[-1:]
    question = await browser.get(f"/operations/{one.id}/cancel")
    assert "cannot be foreseen" in question.text
    answer = await browser.post(f"/operations/{one.id}/cancel", question.fields)
    assert answer.status_code == 303


async def test_other_sites_cancel_nothing(browser: Browser) -> None:
    one = await applied(browser, sizes={"decode": 4})
    path = f"/operations/{one.id}/cancel"
    for method in ("GET", "POST"):
        answer = await browser.http.request(method, path, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403
    assert browser.world.state.fleet.desired.pools[1].size == 4


async def test_past_operations_come_in_pages(browser: Browser) -> None:
    made = [await applied(browser, sizes={"decode": 3 + turn % 2}) for turn in range(1, 31)]
    first = await browser.get("/operations")
    older = next(a["href"] for a in first.all("a") if a.get("rel") == "next")
    second = await browser.get(older)
    shown = [one.id for one in made if one.id in first.html] + [
        one.id for one in made if one.id in second.html
    ]
    assert sorted(shown) == sorted(one.id for one in made)
    assert 'hx-get="/ui/operations' not in second.html
