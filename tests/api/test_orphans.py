"""Engines that no instance owns, over the wire."""

from __future__ import annotations

import httpx2
import pytest
from tests.fakes.engines import FakeFinder, family, leftover, verbs
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict, Failed, NotFound
from pdctl.domain.audit import AuditQuery
from pdctl.domain.orphans import Kind, Shim

SHIM = Shim(9, "/other/run", "22", "prefill-0", served=True)


@pytest.fixture
def finder(world: World) -> FakeFinder:
    mine = Shim(9, "/state/run", "decode-0-n1", "decode-0")
    one = FakeFinder([family(40, 18001, shim=mine), leftover(50), family(60, shim=SHIM)])
    world.plane.orphans = verbs(world, one)
    return one


@pytest.mark.usefixtures("finder")
async def test_the_list_says_what_each_is_and_whose(client: AdminClient) -> None:
    page = await client.orphans()
    assert [(one.key, one.kind) for one in page.items] == [
        ("50-500", Kind.ORPHANED), ("60-600", Kind.FOREIGN),
    ]  # fmt: skip
    core, theirs = page.items
    assert (core.what, core.memory_bytes, core.since) == ("EngineCore", 3 * 2**30, None)
    assert (theirs.model, theirs.kv_role, theirs.ports) == ("tiny", "kv_consumer", [18005, 18105])
    assert (theirs.supervised, theirs.folder) == (True, "/other/run")
    assert "sk-a-secret-of-theirs" not in " ".join(theirs.command)
    owned = await client.orphans(owned=True)
    assert owned.items[0].instance == "decode-0"


async def test_killing_answers_when_it_is_gone_and_once_per_key(
    http: httpx2.AsyncClient, finder: FakeFinder, world: World
) -> None:
    key = {"Idempotency-Key": "k1"}
    path = "/api/v1/orphans/50-500/kill"
    first = await http.post(path, headers=key)
    assert first.status_code == 200, first.text
    assert (first.json()["kind"], first.json()["why"][:5]) == ("gone", "Ended")
    again = await http.post(path, headers=key)
    assert again.headers["idempotency-replayed"] == "true"
    assert finder.ended == ["50-500"]
    anew = await http.post(path)
    assert (anew.status_code, anew.json()["code"]) == (409, "identity_moved")
    entries = await world.store.audit(AuditQuery(verb="kill_orphan"))
    assert [one.outcome for one in entries] == ["done"]


async def test_force_is_needed_for_what_another_pdctl_supervises(
    client: AdminClient, finder: FakeFinder
) -> None:
    with pytest.raises(Conflict, match=r"prefill-0 of the pdctl .*--force"):
        await client.kill_orphan("60-600")
    assert finder.ended == []
    assert (await client.kill_orphan("60-600", force=True)).kind is Kind.GONE
    with pytest.raises(Conflict, match="pdctl stop decode-0"):
        await client.kill_orphan("40-400", force=True)


@pytest.mark.usefixtures("finder")
async def test_adopting_is_refused_in_words(client: AdminClient) -> None:
    with pytest.raises(Conflict, match='launcher = "subprocess"'):
        await client.adopt_orphan("60-600", "decode")
    with pytest.raises(NotFound, match="There is no pool 'nobody'"):
        await client.adopt_orphan("60-600", "nobody")
    with pytest.raises(Failed, match="key"):
        await client.kill_orphan("not-a-key")


async def test_where_no_machine_is_looked_at_it_says_so(client: AdminClient) -> None:
    with pytest.raises(Conflict, match="does not look at the processes"):
        await client.orphans()
