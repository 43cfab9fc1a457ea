"""The router's page: what each setting is, how it is switched, and whom it leaves alone."""

from __future__ import annotations

from pdctl.contract.router import MEANINGS
from pdctl.domain.live import LIVE
from tests.web.site import Browser


def test_every_setting_that_is_switched_live_is_explained() -> None:
    assert tuple(MEANINGS) == LIVE


async def test_a_setting_is_switched_by_a_plan_without_scripts(browser: Browser) -> None:
    page = await browser.get("/router")
    for name in LIVE:
        assert name in page.text
    assert "every instance that is ready gets its requests" in page.text
    question = await browser.get("/change?router=prefill_policy&value=round_robin")
    for word in (
        "Switch prefill_policy to round_robin?",
        "router.prefill_policy least_loaded -> round_robin",
        "pdctl router set prefill_policy=round_robin",
    ):
        assert word in question.text, word
    plan = browser.world.plane.plans.plans()[0]
    done = await browser.post(f"/plans/{plan.id}/apply", question.fields)
    assert done.status_code == 303
    assert browser.world.state.fleet.desired.router.prefill_policy == "round_robin"
