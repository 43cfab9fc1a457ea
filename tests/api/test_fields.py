"""Lists of chosen fields, names of API keys, and who is told where nobody has a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.api.openapi import describe
from pdctl.client.admin import AdminClient
from pdctl.domain.keys import digest


@pytest.mark.parametrize(
    ("path", "fields"),
    [("instances", "id,phase"), ("pairs", "decode,state"), ("requests", "outcome,id")],
)
async def test_only_the_fields_that_were_asked_for(
    http: httpx2.AsyncClient, path: str, fields: str
) -> None:
    whole = (await http.get(f"/api/v1/{path}")).json()
    some = (await http.get(f"/api/v1/{path}", params={"fields": fields})).json()
    if path == "requests":
        assert some["next"] == whole["next"]
        whole, some = whole["items"], some["items"]
    names = fields.split(",")
    assert some
    assert some == [{name: one[name] for name in names} for one in whole]
    assert [list(one) for one in some] == [names] * len(some)


async def test_a_field_that_there_is_not_is_named(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/v1/instances", params={"fields": "id,phse"})
    assert (answer.status_code, answer.json()["code"]) == (400, "no_such_field")
    assert "Did you mean 'phase'?" in answer.json()["hint"]


async def test_keys_are_named_and_never_shown(
    client: AdminClient, http: httpx2.AsyncClient, world: World, tmp_path: Path
) -> None:
    assert not (await client.keys()).required
    file = tmp_path / "keys.toml"
    desired = world.state.fleet.desired
    router = replace(desired.router, keys_file=str(file))
    world.state.set_desired(replace(desired, router=router))
    assert "cannot be used: No such file" in (await client.keys()).note
    file.write_text(f'[alice]\nsha256 = "{digest("secret")}"\nconcurrent = 4\n', encoding="utf-8")
    (alice,) = (await client.keys()).items
    assert (alice.name, alice.concurrent, alice.requests_per_minute) == ("alice", 4, None)
    text = (await http.get("/api/v1/keys")).text
    assert digest("secret")[:12] not in text
    file.write_text("[alice]\n", encoding="utf-8")
    assert "cannot be used" in (await client.keys()).note


@pytest.mark.parametrize(
    ("peer", "token", "actor"),
    [
        ("127.0.0.1", None, "loopback"),
        ("10.0.0.5", None, "loopback at 10.0.0.5"),
        ("::1", "secret", "token"),
        ("2001:db8::5", "secret", "token at 2001:db8::5"),
    ],
)
async def test_who_shares_a_name_is_told_by_address(
    world: World, peer: str, token: str | None, actor: str
) -> None:
    transport = httpx2.ASGITransport(app=create_api(world.plane, token=token), client=(peer, 5))
    async with AdminClient("http://127.0.0.1", token, transport=transport) as client:
        await client.acting_as(token, peer="192.0.2.1").set_mode("chunked")
        entries = (await client.audit(verb="set_mode")).items
    assert [one.actor for one in entries] == [actor], "a peer that it says itself is not believed"


def test_every_body_has_an_example() -> None:
    document = describe()
    shapes = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = content["schema"]
                ref = schema.get("$ref") or schema["anyOf"][0]["$ref"]
                assert shapes[ref.rpartition("/")[2]].get("examples"), f"{method} {path}"
