"""The operations log and the revisions over REST, through the public client."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import httpx2
import pytest
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Failed, NotFound
from pdctl.contract.plans import ChangeBody
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode


def mend(world: World) -> None:
    for one in world.state.fleet.instances:
        world.change(one.id, Phase.READY, Reason.DESIRED, "")


async def test_every_verb_is_searchable(client: AdminClient, world: World) -> None:
    mend(world)
    await client.set_mode("chunked")
    await client.restart("prefill-0")
    plan = await client.plan(ChangeBody(sizes={"decode": 4}))
    await client.apply(plan.id)
    log = (await client.audit()).items
    assert [one.verb for one in log[:3]] == ["set_mode", "restart", "resize"]
    assert {(one.actor, one.source) for one in log} == {("loopback", "web")}
    for query, wanted in (
        ({"verb": "restart"}, log[1:2]),
        ({"subject": "prefill-0"}, log[1:2]),
        ({"after": log[1].seq, "limit": 1}, log[2:3]),
        ({"before": log[2].seq, "limit": 1}, log[1:2]),
        ({"source": "tui"}, []),
        ({"outcome": "nothing"}, []),
        ({"actor": "loopback", "verb": "set_mode"}, log[:1]),
    ):
        assert (await client.audit(**query)).items == wanted, query
    with pytest.raises(Failed, match="limit"):
        await client.audit(limit=0)


async def test_an_entry_that_is_not_stored_yet_is_shown_all_the_same(
    client: AdminClient, world: World
) -> None:
    await client.set_mode("chunked")
    world.feed.publish(EventKind.OPERATION, "decode-0", {"verb": "clear", "actor": "ada"})
    assert [one.verb for one in (await client.audit()).items] == ["set_mode", "clear"]
    assert len([line async for line in client.export_audit()]) == 2
    world.store.failing = True
    page = await client.audit()
    assert [one.verb for one in page.items] == ["set_mode", "clear"]
    assert "does not answer" in page.note


async def test_an_export_is_every_match_as_lines(
    http: httpx2.AsyncClient, client: AdminClient, world: World
) -> None:
    for number in range(1300):
        verb = "drain" if number % 2 else "undrain"
        world.publish(EventKind.OPERATION, "fleet", {"verb": verb, "actor": "ada", "n": number})
    lines = [json.loads(line) async for line in client.export_audit(verb="drain", limit=3)]
    assert [one["details"]["n"] for one in lines] == list(range(1, 1300, 2))
    answer = await http.get("/api/v1/audit", params={"format": "jsonl", "verb": "nothing"})
    assert (answer.text, answer.headers["content-type"]) == ("", "application/jsonl")
    forged = {"verb": "drain", "actor": "=cmd|' /C calc'!A0", "about": ["decode-1", "decode-2"]}
    world.publish(EventKind.OPERATION, "fleet", forged)
    answer = await http.get("/api/v1/audit", params={"format": "csv", "text": "CALC"})
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(one["verb"], one["about"]) for one in table] == [("drain", "decode-1 decode-2")]
    assert table[0]["actor"].startswith("'=")
    assert "pdctl-audit.csv" in answer.headers["content-disposition"]
    world.store.failing = True
    assert (await http.get("/api/v1/audit", params={"format": "jsonl"})).status_code == 500


async def test_revisions_say_who_why_and_what(client: AdminClient) -> None:
    await client.set_mode("chunked")
    plan = await client.plan(ChangeBody(sizes={"decode": 4}))
    await client.apply(plan.id)
    page = await client.revisions()
    assert [(one.revision, one.author, one.current) for one in page.items] == [
        (3, "loopback", True), (2, "loopback", False), (1, "serve", False),
    ]  # fmt: skip
    assert page.items[0].reason == "decode 3 -> 4"
    assert page.items[0].changes == ["pools.decode.size 3 -> 4"]
    assert page.items[1].changes == ["mode pd -> chunked"]
    first = await client.revisions(limit=2)
    assert (len(first.items), first.next) == (2, 2)
    rest = await client.revisions(limit=2, before=first.next)
    assert ([one.revision for one in rest.items], rest.next) == ([1], None)
    one = await client.revision(3)
    assert one.changes == page.items[0].changes
    assert one.fields["pools.decode.size"] == 4
    assert one.fields["mode"] == "chunked"


async def test_a_difference_is_field_by_field_and_shows_no_secret(
    client: AdminClient, world: World
) -> None:
    await client.set_mode("chunked")
    before = world.state.fleet.desired
    env = (("HF_TOKEN", "hf_0123456789"), ("UCX_TLS", "tcp"))
    after = replace(before, engine=replace(before.engine, env=env), revision=3)
    await world.save(after, "ada", "by hand")
    diff = await client.diff(1, 3)
    assert [one.words for one in diff.changes] == diff.words
    assert diff.words == [
        "mode pd -> chunked",
        "engine.env.HF_TOKEN nothing -> ***",
        "engine.env.UCX_TLS nothing -> tcp",
    ]
    assert (await client.diff(3, 3)).changes == []
    assert "hf_0123456789" not in (await client.revision(3)).model_dump_json()
    with pytest.raises(NotFound, match="no revision 9"):
        await client.diff(1, 9)
    with pytest.raises(Failed):
        await client.revision(0)


async def test_the_way_back_is_a_plan(client: AdminClient, world: World) -> None:
    mend(world)
    plan = await client.plan(ChangeBody(sizes={"decode": 4}, mode=Mode.CHUNKED))
    await client.apply(plan.id)
    undo = await client.plan_undo(1)
    assert undo.change == ["back to revision 1", "mode chunked -> pd", "pools.decode.size 4 -> 3"]
    assert (await client.plan_of(undo.id)).id == undo.id
    await client.apply(undo.id)
    assert world.state.fleet.desired.shape == "2p3d"
    assert (await client.audit(verb="undo")).items
    with pytest.raises(NotFound, match="no revision 77"):
        await client.plan_undo(77)
