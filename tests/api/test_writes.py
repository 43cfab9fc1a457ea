"""Writes sent twice, and two operators at once: done once, and the loser is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict
from pdctl.contract.plans import ChangeBody
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import FleetSpec, Mode

MODE = "/api/v1/mode"
CHUNKED = {"mode": "chunked"}


@pytest.fixture(autouse=True)
def _mend(world: World) -> None:
    for one in world.state.fleet.instances:
        world.change(one.id, Phase.READY, Reason.DESIRED, "")


def code(answer: httpx2.Response) -> str:
    return str(answer.json()["code"])


async def put(http: httpx2.AsyncClient, body: Any, path: str = MODE, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.put(path, json=body, headers=named)


async def test_the_tag_is_the_revision(http: httpx2.AsyncClient) -> None:
    for path in (MODE, "/api/v1/fleet", "/api/v1/pools", "/api/v1/pools/decode"):
        assert (await http.get(path)).headers["etag"] == '"1"'
    answer = await put(http, CHUNKED, If_Match='"1"')
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')


async def test_a_change_of_what_is_gone_is_refused_with_both_revisions(
    http: httpx2.AsyncClient, world: World
) -> None:
    await put(http, CHUNKED)
    answer = await put(http, {"mode": "pd"}, If_Match='"1"')
    assert (answer.status_code, code(answer)) == (412, "revision_stale")
    assert answer.json()["errors"] == [{"expected": [1], "current": 2}]
    assert "revision 2" in answer.json()["detail"]
    assert answer.headers["etag"] == '"2"'
    assert world.state.fleet.desired.mode is Mode.CHUNKED


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        ("*", 200), ('"1"', 200), ('"9", "1"', 200), ('W/"1"', 412), ('"x"', 412), ('"9"', 412),
        ("1", 400), ("", 400), ('"1', 400),
    ],
)  # fmt: skip
async def test_what_if_match_may_say(http: httpx2.AsyncClient, tags: str, status: int) -> None:
    assert (await put(http, CHUNKED, If_Match=tags)).status_code == status


async def test_of_two_operators_at_once_one_wins(http: httpx2.AsyncClient, world: World) -> None:
    answers = await asyncio.gather(
        put(http, CHUNKED, If_Match='"1"'),
        put(http, {"size": 4}, "/api/v1/pools/decode", If_Match='"1"'),
        put(http, {"size": 5}, "/api/v1/pools/decode", If_Match='"1"'),
    )
    codes = sorted(answer.status_code for answer in answers)
    assert codes[0] in (200, 202)
    assert set(codes[1:]) <= {409, 412}
    assert world.state.fleet.desired.revision == 2


async def test_of_two_plans_on_one_fleet_one_is_applied(client: AdminClient) -> None:
    plans = [await client.plan(ChangeBody(sizes={"decode": size})) for size in (4, 5)]
    ended = await asyncio.gather(*(client.apply(plan.id) for plan in plans), return_exceptions=True)
    lost = [one for one in ended if isinstance(one, Conflict)]
    assert len(lost) == 1
    assert "has moved" in str(lost[0])


async def test_a_pool_is_put_by_a_plan(http: httpx2.AsyncClient, world: World) -> None:
    answer = await put(http, {"size": 4}, "/api/v1/pools/decode")
    assert (answer.status_code, answer.json()["desired"]) == (202, 4)
    operation = await http.get(answer.headers["location"])
    assert operation.json()["change"] == ["decode 3 -> 4"]
    again = await put(http, {"size": 4}, "/api/v1/pools/decode")
    assert (again.status_code, "location" in again.headers) == (200, False)
    assert world.state.fleet.desired.revision == 2
    for path, body, status in (
        ("/api/v1/pools/draft", {"size": 1}, 404),
        ("/api/v1/pools/decode", {"size": -1}, 422),
        ("/api/v1/pools/decode", {"size": 1, "x": 1}, 422),
    ):
        assert (await put(http, body, path)).status_code == status


async def test_a_whole_file_is_put(http: httpx2.AsyncClient) -> None:
    bad = await put(http, {"file": "[fleet]\nnmae = 'x'\n"}, "/api/v1/fleet")
    assert (bad.status_code, code(bad)) == (422, "bad_fleet_file")
    text = (
        '[fleet]\nname = "other"\nmodel = "models/tiny-llama"\n[engine]\nkind = "simulated"\n'
        "[pools.prefill]\nsize = 1\n[pools.decode]\nsize = 1\n"
    )
    other = await put(http, {"file": text}, "/api/v1/fleet")
    assert (other.status_code, code(other)) == (409, "plan_refused")
    assert "name cannot change" in other.json()["detail"]


async def test_the_same_write_again_is_answered_again_and_done_once(
    http: httpx2.AsyncClient, world: World, clock: VirtualClock
) -> None:
    first = await put(http, CHUNKED, Idempotency_Key="k1")
    await put(http, {"mode": "pd"})
    again = await put(http, CHUNKED, Idempotency_Key="k1")
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    for name in ("content-type", "etag"):
        assert again.headers[name] == first.headers[name]
    assert (again.status_code, again.content) == (200, first.content)
    assert world.state.fleet.desired.revision == 3
    other = await put(http, {"mode": "pd"}, Idempotency_Key="k1")
    assert (other.status_code, code(other)) == (422, "idempotency_key_reused")
    await clock.advance(24 * 3600 + 1)
    assert (await put(http, CHUNKED, Idempotency_Key="k1")).status_code == 200
    assert world.state.fleet.desired.revision == 4


async def test_refusals_are_replayed_and_server_errors_are_not(
    http: httpx2.AsyncClient, world: World
) -> None:
    path = "/api/v1/instances/decode-9/restart"
    for replayed in (False, True):
        answer = await http.post(path, headers={"Idempotency-Key": "k2"})
        assert answer.status_code == 404
        assert ("idempotency-replayed" in answer.headers) is replayed
    world.plane.operations.set_mode = broken  # type: ignore[method-assign]
    for _ in range(2):
        failed = await put(http, CHUNKED, Idempotency_Key="k3")
        assert failed.status_code == 500
        assert "idempotency-replayed" not in failed.headers
    assert "k3" not in str(world.store.answers)


async def broken(*_: object, **__: object) -> FleetSpec:
    raise RuntimeError("a defect of ours")


async def test_a_duplicate_of_a_write_under_way_is_told_to_wait(
    http: httpx2.AsyncClient, world: World
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    set_mode = world.plane.operations.set_mode

    async def slow(*given: Any, **named: Any) -> FleetSpec:
        begun.set()
        await go_on.wait()
        return await set_mode(*given, **named)

    world.plane.operations.set_mode = slow  # type: ignore[method-assign]
    first = asyncio.ensure_future(put(http, CHUNKED, Idempotency_Key="k4"))
    await begun.wait()
    second = await put(http, CHUNKED, Idempotency_Key="k4")
    assert (second.status_code, code(second)) == (409, "write_under_way")
    assert second.headers["retry-after"] == "1"
    go_on.set()
    assert (await first).status_code == 200
    assert (await put(http, CHUNKED, Idempotency_Key="k4")).content == (await first).content


async def test_after_a_restart_answers_are_there_and_a_cut_write_is_not_guessed_at(
    http: httpx2.AsyncClient, world: World
) -> None:
    done = await put(http, CHUNKED, Idempotency_Key="k5")
    claim = next(iter(world.store.answers.values()))
    world.store.answers["loopback:k6"] = type(claim)("loopback:k6", claim.fingerprint, claim.at)
    later = httpx2.ASGITransport(create_api(world.plane, token=None))
    async with httpx2.AsyncClient(transport=later, base_url="http://127.0.0.1") as other:
        assert (await put(other, CHUNKED, Idempotency_Key="k5")).content == done.content
        unknown = await put(other, CHUNKED, Idempotency_Key="k6")
    assert (unknown.status_code, code(unknown)) == (409, "outcome_unknown")
    assert "/api/v1/audit" in unknown.json()["hint"]


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "\u00e4"])
async def test_an_odd_key_is_refused(http: httpx2.AsyncClient, world: World, key: str) -> None:
    headers = [(b"idempotency-key", key.encode())]
    answer = await http.put(MODE, json=CHUNKED, headers=headers)
    assert (answer.status_code, code(answer)) == (400, "bad_idempotency_key")
    assert world.state.fleet.desired.mode is Mode.PD


async def test_without_a_store_nothing_is_done_under_a_key(
    http: httpx2.AsyncClient, world: World
) -> None:
    world.store.failing = True
    assert code(await put(http, CHUNKED, Idempotency_Key="k7")) == "store_failed"
    assert world.state.fleet.desired.mode is Mode.PD


async def test_keys_belong_to_their_caller_and_bodies_have_a_limit(
    app: FastAPI, clock: VirtualClock, tmp_path: Path
) -> None:
    locked = create_api(World(clock, "normal", tmp_path).plane, token="secret")
    for api, status in ((app, 413), (locked, 401)):
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(api), base_url="http://127.0.0.1"
        ) as http:
            huge = b"x" * (1024 * 1024 + 1)
            answer = await http.post(
                "/api/v1/plans", content=huge, headers={"Idempotency-Key": "k8"}
            )
            assert answer.status_code == status
