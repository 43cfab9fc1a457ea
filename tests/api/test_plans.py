"""Plans and operations over the wire: created, read, applied, refused, followed."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict, NotFound
from pdctl.contract.plans import ChangeBody, OperationView, PlanView
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode

PLANS = "/api/v1/plans"


@pytest.fixture(autouse=True)
def _all_ready(world: World) -> None:
    for one in world.state.fleet.instances:
        world.change(one.id, Phase.READY, Reason.DESIRED, "")


async def plan(http: httpx2.AsyncClient, **change: Any) -> httpx2.Response:
    return await http.post(PLANS, json={"change": change})


async def test_a_plan_is_created_where_it_says(http: httpx2.AsyncClient, world: World) -> None:
    answer = await plan(http, sizes={"decode": 4}, mode="chunked")
    assert answer.status_code == 201, answer.text
    view = PlanView.model_validate(answer.json())
    assert answer.headers["location"] == f"{PLANS}/{view.id}"
    assert view.change == ["decode 3 -> 4", "mode pd -> chunked"]
    assert [step.kind for step in view.steps[:2]] == ["route", "launch"]
    launch = view.steps[1]
    assert (launch.subject, launch.samples, launch.role) == ("decode-3", 0, "decode")
    assert launch.ports
    assert (view.shape_before, view.shape_after) == ("2p3d", "2p4d")
    assert view.refused == []
    assert view.stale == ""
    curve = dict.fromkeys((point.prefill, point.decode) for point in view.capacity)
    assert list(curve) == [(2, 3), (2, 4)]
    again = await http.get(answer.headers["location"])
    assert again.json() == answer.json()
    listed = (await http.get(PLANS)).json()["items"]
    assert [one["id"] for one in listed] == [view.id]
    assert listed[0]["steps"] == []
    assert world.state.fleet.desired.mode is Mode.PD


async def test_streams_and_leases_are_named(http: httpx2.AsyncClient) -> None:
    view = PlanView.model_validate((await plan(http, stop=["prefill-1"])).json())
    drain = view.steps[0]
    assert (drain.kind, drain.subject, drain.lease_s) == ("drain", "prefill-1", 10)
    assert drain.why == "an operator sends it away"
    lowest = {dip.role: (dip.before, dip.lowest, dip.after) for dip in view.lowest}
    assert lowest == {"prefill": (2, 1, 1), "decode": (3, 3, 3), "serving": (5, 4, 4)}


async def test_applying_begins_an_operation(http: httpx2.AsyncClient, world: World) -> None:
    id_ = (await plan(http, sizes={"decode": 4})).json()["id"]
    answer = await http.post(f"{PLANS}/{id_}/apply", headers={"x-pdctl-source": "tui"})
    assert answer.status_code == 202
    run = OperationView.model_validate(answer.json())
    assert answer.headers["location"] == f"/api/v1/operations/{run.id}"
    assert (run.state, run.plan, run.source) == ("running", id_, "tui")
    assert run.steps_done == 0
    assert run.steps_total >= 4
    assert run.waiting_for[0] == "launch decode-3"
    assert world.state.fleet.desired.pools[1].size == 4
    world.change("decode-0", Phase.WARMING, Reason.DESIRED, "of no concern")
    followed = (await http.get(f"/api/v1/operations/{run.id}")).json()
    assert followed["steps_done"] == 0
    world.publish(EventKind.INSTANCE_CHANGED, "decode-3", {"phase": "warming", "pool": "decode"})
    followed = (await http.get(f"/api/v1/operations/{run.id}")).json()
    done = [(one["kind"], one["subject"]) for one in followed["steps"] if one["done"]]
    assert done == [("launch", "decode-3")]
    assert len(followed["steps"]) == run.steps_total
    listed = (await http.get("/api/v1/operations")).json()["items"]
    assert [(one["id"], one["steps"]) for one in listed] == [(run.id, [])]
    assert (await http.get(f"{PLANS}/{id_}")).json()["operation"] == run.id
    twice = await http.post(f"{PLANS}/{id_}/apply")
    assert (twice.status_code, twice.json()["code"]) == (409, "plan_applied")


async def test_a_moved_world_is_a_conflict_that_says_what_moved(
    client: AdminClient, world: World
) -> None:
    made = await client.plan(ChangeBody(sizes={"decode": 4}))
    world.change("decode-0", Phase.BACKOFF, Reason.EXITED, "gone")
    assert (await client.plan_of(made.id)).stale == "decode-0 is backoff, it was ready"
    with pytest.raises(Conflict) as caught:
        await client.apply(made.id)
    assert caught.value.problem.code == "plan_stale"
    assert "decode-0 is backoff" in caught.value.problem.detail


async def test_refused_is_a_plan_that_cannot_be_applied(client: AdminClient) -> None:
    made = await client.plan(ChangeBody(sizes={"decoed": 4}))
    assert [one.code for one in made.refused] == ["no_such_pool"]
    assert "Did you mean 'decode'" in made.refused[0].hint
    with pytest.raises(Conflict) as caught:
        await client.apply(made.id)
    assert caught.value.problem.code == "plan_refused"


async def test_an_operation_can_be_taken_back(client: AdminClient, world: World) -> None:
    run = await client.apply((await client.plan(ChangeBody(sizes={"decode": 1}))).id)
    back = await client.cancel(run.id)
    assert back.state == "cancelled"
    assert world.state.fleet.desired.pools[1].size == 3
    with pytest.raises(Conflict):
        await client.cancel(run.id)
    assert [one.state for one in (await client.operations()).items] == ["cancelled"]


async def test_a_posted_file_is_checked_with_line_numbers(http: httpx2.AsyncClient) -> None:
    answer = await plan(http, file="[fleet]\nmodel = 1\nmodle = 2\n[pools.decode]\nsize = -1\n")
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "bad_fleet_file"
    assert {one["line"] for one in problem["errors"]} >= {2, 5}
    assert all(one["message"] for one in problem["errors"])


async def test_a_posted_file_is_planned(http: httpx2.AsyncClient) -> None:
    text = (
        '[fleet]\nname = "simulated"\nmodel = "models/tiny-llama"\nserved_name = "tiny"\n'
        '[engine]\nkind = "simulated"\nlauncher = "subprocess"\nargs = { max-num-seqs = 8 }\n'
        "[pools.prefill]\nsize = 2\n[pools.decode]\nsize = 3\n"
    )
    answer = await plan(http, file=text)
    assert answer.status_code == 201, answer.text
    view = PlanView.model_validate(answer.json())
    assert "engine.args.max-num-seqs nothing -> 8" in view.change
    assert [step.kind for step in view.steps].count("launch") == 5
    assert view.lowest[1].lowest == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"change": {"size": {"decode": 2}}},
        {"change": {"sizes": {"decode": -1}}},
        {"change": {"sizes": {"decode": 1001}}},
        {"change": {"mode": "both"}},
        {"change": {"drain": [""]}},
    ],
)
async def test_bodies_that_mean_nothing(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    answer = await http.post(PLANS, json=body)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_request"


async def test_what_is_not_kept(client: AdminClient) -> None:
    for ask in (client.plan_of, client.apply, client.operation, client.cancel):
        with pytest.raises(NotFound):
            await ask("plan-none")
