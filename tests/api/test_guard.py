"""Who gets in: tokens, loopback names, and pages of other sites that try."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.api.guard import is_loopback_host
from pdctl.client.admin import AdminClient
from pdctl.client.errors import Denied

TOKEN = "correct horse battery staple"
PUT = {"mode": "pd"}


@pytest.fixture
async def locked(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_api(world.plane, token=TOKEN))
    async with httpx2.AsyncClient(transport=transport, base_url="http://fleet.example") as client:
        yield client


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/fleet",
        "/api/v1/events",
        "/readyz?verbose",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/api",
    ],
)
async def test_a_token_is_needed_for_everything_of_ours(
    locked: httpx2.AsyncClient, path: str
) -> None:
    answer = await locked.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorised"
    assert TOKEN not in answer.text


async def test_livez_needs_none(locked: httpx2.AsyncClient) -> None:
    assert (await locked.get("/livez")).text == "ok\n"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong", "Bearer", "Bearer ", "Basic " + TOKEN, TOKEN, "bearer\t" + TOKEN + "x",
        f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    ],
)  # fmt: skip
async def test_wrong_tokens_stay_out(locked: httpx2.AsyncClient, header: str) -> None:
    sent = {b"authorization": header.encode("latin-1")}
    answer = await locked.get("/api/v1/fleet", headers=sent)
    assert answer.status_code == 401


async def test_the_right_one_gets_in_by_header_and_by_cookie(locked: httpx2.AsyncClient) -> None:
    by_header = {"authorization": f"Bearer {TOKEN}"}
    assert (await locked.get("/api/v1/fleet", headers=by_header)).status_code == 200
    by_cookie = {"cookie": f'pdctl_token="{TOKEN}"'}
    assert (await locked.get("/api/v1/fleet", headers=by_cookie)).status_code == 200
    wrong = {"cookie": "pdctl_token=wrong"}
    assert (await locked.get("/api/v1/fleet", headers=wrong)).status_code == 401
    assert (await locked.put("/api/v1/mode", headers=by_header, json=PUT)).status_code == 200


async def test_the_client_says_denied(world: World) -> None:
    transport = httpx2.ASGITransport(create_api(world.plane, token=TOKEN))
    async with AdminClient("http://x", "wrong", transport=transport) as client:
        with pytest.raises(Denied, match="valid token"):
            await client.fleet()
        with pytest.raises(Denied):
            await client.ready()
        assert (await client.acting_as(TOKEN).fleet()).name == "simulated"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "10.0.0.7:8080", "", "localhost.evil", "[::2]", "["],
)
async def test_without_a_token_other_names_are_refused(http: httpx2.AsyncClient, host: str) -> None:
    answer = await http.get("/api/v1/fleet", headers={"host": host})
    assert answer.status_code == 403
    assert answer.json()["code"] == "wrong_host"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:80", "127.9.9.9"]
)
def test_loopback_names(host: str) -> None:
    assert is_loopback_host(host)


CROSS = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1"},
]


@pytest.mark.parametrize("headers", CROSS)
async def test_pages_of_other_sites_change_nothing(
    http: httpx2.AsyncClient, world: World, headers: dict[str, str]
) -> None:
    answer = await http.put("/api/v1/mode", json={"mode": "chunked"}, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["code"] == "cross_origin"
    assert world.state.fleet.desired.mode == "pd"


@pytest.mark.parametrize("headers", CROSS)
async def test_not_even_with_the_cookie(
    locked: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await locked.put(
        "/api/v1/mode",
        json={"mode": "chunked"},
        headers=headers | {"cookie": f"pdctl_token={TOKEN}"},
    )
    assert answer.status_code in (401, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://127.0.0.1"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_our_own_pages_and_plain_clients_may(
    http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    assert (await http.put("/api/v1/mode", json={"mode": "pd"}, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("claim", "told"),
    [("ada@box", "ada@box, claimed"), ("ada", "loopback"), ("<b>@x", "loopback")],
)
async def test_a_claim_of_who_asks_counts_where_nobody_has_to_prove_it(
    http: httpx2.AsyncClient, world: World, claim: str, told: str
) -> None:
    await http.put("/api/v1/mode", json={"mode": "chunked"}, headers={"x-pdctl-actor": claim})
    entry = (await http.get("/api/v1/audit")).json()["items"][-1]
    assert (entry["verb"], entry["actor"]) == ("set_mode", told)


async def test_a_claim_does_not_count_beside_a_token(locked: httpx2.AsyncClient) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "x-pdctl-actor": "ada@box"}
    await locked.put("/api/v1/mode", json={"mode": "chunked"}, headers=headers)
    entry = (await locked.get("/api/v1/audit", headers=headers)).json()["items"][-1]
    assert entry["actor"] == "token"
