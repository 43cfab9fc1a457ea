"""/router: shown, switched in one call or by a plan, taken back; nothing restarts for it."""

from __future__ import annotations

import httpx2
import pytest
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError, Conflict
from pdctl.contract.plans import ChangeBody
from pdctl.domain.handoff import Load
from pdctl.domain.kv_events import KvFollowed
from pdctl.domain.lifecycle import Phase, Reason

PATH = "/api/v1/router"


@pytest.fixture(autouse=True)
def _mend(world: World) -> None:
    for one in world.state.fleet.instances:
        world.change(one.id, Phase.READY, Reason.DESIRED, "")


async def test_a_switch_is_in_force_and_in_the_log_at_once(
    client: AdminClient, http: httpx2.AsyncClient, world: World
) -> None:
    before = await client.router()
    assert (before.prefill_policy, before.pd_min_prompt_tokens) == ("least_loaded", 0)
    assert {"cost", "least_loaded", "prefix_affinity"} <= set(before.policies)
    starts = [(one.id, one.generation, one.phase) for one in world.state.fleet.instances]
    answer = await http.patch(PATH, json={"prefill_policy": "cost", "pd_min_prompt_tokens": 256})
    assert answer.status_code == 200, answer.text
    assert answer.headers["etag"] == '"2"'
    assert world.state.fleet.desired.router.prefill_policy == "cost"
    operation = (await http.get(answer.headers["location"])).json()
    assert operation["steps"][0]["kind"] == "route"
    assert operation["steps"][0]["done"]
    entry = (await client.audit()).items[-1]
    assert (entry.verb, entry.outcome) in (("set_router", "done"), ("operation", "done"))
    assert [(o.id, o.generation, o.phase) for o in world.state.fleet.instances] == starts
    after = await client.router()
    assert (after.prefill_policy, after.pd_min_prompt_tokens, after.revision) == ("cost", 256, 2)


async def test_asking_for_what_is_changes_nothing(http: httpx2.AsyncClient) -> None:
    for body in ({"retries": 1}, {}):
        answer = await http.patch(PATH, json=body)
        assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')


async def test_an_unknown_policy_is_refused_with_the_known_ones(
    client: AdminClient, world: World
) -> None:
    with pytest.raises(ClientError, match="no policy 'least_load'"):
        await client.set_router({"decode_policy": "least_load"})
    with pytest.raises(ClientError):
        await client.set_router({"port": 1})
    assert world.state.fleet.desired.revision == 1


async def test_an_objective_is_switched_like_a_policy(http: httpx2.AsyncClient) -> None:
    answer = await http.patch("/api/v1/router", json={"slo": "chat", "admission": "queue"})
    assert answer.status_code == 200
    assert (answer.json()["slo"], answer.json()["admission"]) == ("chat", "queue")
    answer = await http.patch("/api/v1/router", json={"slo": "chap"})
    assert "Did you mean 'chat'?" in answer.json()["hint"]
    answer = await http.patch("/api/v1/router", json={"slo": "", "admission": "off"})
    assert answer.json()["slo"] == ""


async def test_a_switch_of_what_is_gone_is_refused(client: AdminClient) -> None:
    await client.set_router({"retries": 2}, revision=1)
    with pytest.raises(Conflict):
        await client.set_router({"retries": 3}, revision=1)


async def test_plans_and_undo_know_settings(client: AdminClient, world: World) -> None:
    plan = await client.plan(ChangeBody(router={"decode_policy": "power_of_two"}))
    assert plan.change == ["router.decode_policy least_loaded -> power_of_two"]
    assert plan.steps[0].kind == "route"
    assert {step.kind for step in plan.steps} <= {"route", "probe", "ready"}
    await client.apply(plan.id)
    assert world.state.fleet.desired.router.decode_policy == "power_of_two"
    undo = await client.plan_undo(1)
    assert undo.change == [
        "back to revision 1", "router.decode_policy power_of_two -> least_loaded",
    ]  # fmt: skip
    bad = await client.plan(ChangeBody(router={"decode_policy": "x", "retries": 3}))
    assert [one.code for one in bad.refused] == ["no_such_policy"]


async def test_how_kv_events_are_followed_is_shown(client: AdminClient, world: World) -> None:
    assert (await client.router()).kv_events == []
    last = world.plane.clock.now() - 4.0
    followed = {"b": KvFollowed(why_not="stale"), "a": KvFollowed("", 7, 2, 1, 1, last)}
    world.load = Load(0, kv_events=followed)
    first, second = (await client.router()).kv_events
    assert (first.instance, first.blocks, first.gaps, first.last_event_age_s) == ("a", 7, 2, 4.0)
    assert (second.instance, second.why_not, second.last_event_age_s) == ("b", "stale", None)


async def test_a_plan_names_the_pools_that_publish_nothing(client: AdminClient) -> None:
    plan = await client.plan(ChangeBody(router={"decode_policy": "kv_events"}))
    assert "publish no KV events: chosen by history there" in plan.steps[0].why
