"""The request list over memory and store: one list to the reader, whatever lies where."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import httpx2
import pytest
from tests.fakes.records import record
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Failed, NotFound
from pdctl.control.request_log import RequestLog
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.instance import EngineStats
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.request_query import RequestQuery


@pytest.fixture
def records(world: World) -> list[RequestRecord]:
    """60 in the store; the newest 20 also in memory, and 5 in memory only."""
    rng = Random(2)
    made = [record(rng, number, 1e9 + number) for number in range(65)]
    world.store.records = made[:60]
    world.plane.requests = RequestLog(25)
    for one in made:
        world.plane.requests.add(one)
    return made


async def every(client: AdminClient, limit: int, slowest: bool = False) -> list[str]:
    seen: list[str] = []
    before = None
    while True:
        page = await client.requests(limit=limit, before=before, slowest=slowest)
        seen += [one.id for one in page.items]
        assert len(page.items) <= limit
        before = page.next
        if before is None:
            return seen


@pytest.mark.parametrize("limit", [1, 7, 25, 64, 200])
async def test_paging_joins_memory_and_store(
    client: AdminClient, records: list[RequestRecord], limit: int
) -> None:
    assert await every(client, limit) == [one.id for one in reversed(records)]


async def test_an_export_is_every_match_over_both(
    client: AdminClient, world: World, records: list[RequestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.api.requests_export.PAGE", 7)
    lines = [json.loads(line) async for line in client.export_requests()]
    assert [one["id"] for one in lines] == [one.id for one in reversed(records)]
    page = await client.requests(limit=1)
    assert lines[0] == page.items[0].model_dump(mode="json")
    pd = [json.loads(line)["id"] async for line in client.export_requests(path="pd")]
    assert pd == [one.id for one in reversed(records) if one.path == "pd"]
    monkeypatch.undo()
    world.store.failing = True
    with pytest.raises(Failed, match="does not answer"):
        [line async for line in client.export_requests()]


@pytest.mark.parametrize("limit", [3, 200])
async def test_slowest_first_over_both(
    client: AdminClient, records: list[RequestRecord], limit: int
) -> None:
    wanted = sorted(
        (one for one in records if one.e2e_ms is not None), key=lambda one: -(one.e2e_ms or 0)
    )
    found = await every(client, limit, slowest=True)
    assert found[:3] == [one.id for one in wanted[:3]]
    if limit > len(wanted):
        assert found == [one.id for one in wanted]


async def test_filters(client: AdminClient, records: list[RequestRecord]) -> None:
    page = await client.requests(limit=100, path="pd", outcome="ok", instance="decode-1")
    wanted = [
        one.id
        for one in reversed(records)
        if (one.path, one.outcome) == ("pd", "ok") and one.legs[-1].instance == "decode-1"
    ]
    assert [one.id for one in page.items] == wanted
    assert wanted


async def test_a_store_that_fails_leaves_what_memory_has_and_says_so(
    client: AdminClient, world: World, records: list[RequestRecord]
) -> None:
    world.store.failing = True
    page = await client.requests(limit=100)
    assert [one.id for one in page.items] == [one.id for one in reversed(records[40:])]
    assert "store does not answer" in page.note


async def test_a_store_that_has_nothing_of_memory_yet(
    client: AdminClient, world: World, records: list[RequestRecord]
) -> None:
    world.store.records = records[:30]
    assert await every(client, 100) == [
        one.id for one in [*reversed(records[40:]), *reversed(records[:30])]
    ]


async def test_pages_and_exports_say_that_where_they_go_on_is_gone(
    client: AdminClient, http: httpx2.AsyncClient
) -> None:
    page = await client.requests(before="pruned")
    assert (page.items, page.note) == ([], "'pruned' is held no more. Begin with the newest again.")
    asked = {"before": "pruned", "format": "jsonl"}
    answer = await http.get("/api/v1/requests", params=asked)
    assert (answer.status_code, answer.json()["code"]) == (404, "before_gone")


async def test_one_request_from_memory_and_from_the_store(
    client: AdminClient, records: list[RequestRecord]
) -> None:
    for one in (records[0], records[64]):
        view = await client.request(one.id)
        assert (view.id, view.outcome, len(view.legs)) == (one.id, one.outcome, len(one.legs))
    with pytest.raises(NotFound, match="no finished request"):
        await client.request("never")


async def test_ids_with_slashes_are_found(client: AdminClient, world: World) -> None:
    odd = replace(record(Random(1), 1, 1e9), id="team/a b?c#d%2F..")
    world.plane.requests.add(odd)
    assert (await client.request(odd.id)).id == odd.id


async def test_kv_bytes_come_from_the_decode_instances_own_counters(
    client: AdminClient, world: World
) -> None:
    handed = next(one for one in world.store.records if one.remote_tokens is not None)
    decode = handed.legs[-1].instance
    world.change(decode, Phase.READY, Reason.DESIRED, "", stats=EngineStats(at=0.0))
    assert (await client.request(handed.id)).kv_bytes is None
    stats = EngineStats(at=0.0, nixl_bytes=1536.0 * 1000, prompt_tokens_remote=1000.0)
    world.change(decode, Phase.READY, Reason.DESIRED, "", stats=stats)
    view = await client.request(handed.id)
    assert view.kv_bytes == (handed.remote_tokens or 0) * 1536
    assert (view.prefill, view.decode) == (handed.legs[0].instance, decode)


async def test_what_passes_through_is_marked_and_not_measured(
    client: AdminClient, world: World
) -> None:
    known = world.requests.query(RequestQuery(1))[0]
    world.requests.add(replace(known, id="t", endpoint="/tokenize"))
    assert (await client.request("t")).passed_through
    assert not (await client.request(known.id)).passed_through


@pytest.mark.parametrize("from_store", [False, True])
async def test_requests_by_model_pair_missed_objective_and_beginning(
    client: AdminClient, world: World, from_store: bool
) -> None:
    every = (await client.requests(limit=1000)).items
    if from_store:
        world.requests._ring.clear()

    async def ids(**more: Any) -> set[str]:
        return {one.id for one in (await client.requests(limit=1000, **more)).items}

    handed = {one.id for one in every if (one.prefill, one.decode) == ("prefill-0", "decode-1")}
    assert handed
    assert await ids(pair="prefill-0>decode-1") == {
        one.id for one in every if one.id in handed and one.path == "pd"
    }
    late = {one.id for one in every if one.slo_missed}
    assert late
    assert await ids(slo_missed="any") == await ids(slo_missed="chat") == late
    assert await ids(slo_missed="other") == set()
    assert await ids(model="tiny") == {one.id for one in every}
    assert await ids(model="tin") == set()
    assert every[0].id in await ids(begins=every[0].id[:10])
