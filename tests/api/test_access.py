"""Users, roles and sessions at the admin API: who may what, and what is written down of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.fakes.clock import VirtualClock
from tests.fakes.people import NAMES, PASSWORD, TOKEN, access
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.api.context import INSIDE
from pdctl.domain.access import Role
from pdctl.domain.events import EventKind

FILE = (
    '[fleet]\nname = "simulated"\nmodel = "m"\n[engine]\nkind = "simulated"\n'
    'launcher = "subprocess"\n[pools.prefill]\nsize = 1\n'
)


class House:
    """The API with users, and who knocks at it."""

    def __init__(self, world: World, folder: Path, clock: VirtualClock) -> None:
        self.world = world
        self.api = create_api(world.plane, token="of-the-server", access=access(folder, clock))
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.api), base_url="http://fleet.example"
        )

    async def enter(self, name: str, password: str = PASSWORD) -> httpx2.Response:
        body = {"user": name, "password": password}
        return await self.http.post("/api/v1/session", json=body)

    async def as_(self, name: str) -> dict[str, str]:
        answer = await self.enter(name)
        assert answer.status_code == 201, answer.text
        return {"authorization": f"Bearer {answer.json()['token']}"}

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [
            (one.data["verb"], one.data["actor"], one.data["outcome"])
            for one in self.world.feed.recent(50)
            if one.kind is EventKind.OPERATION
        ]


@pytest.fixture
async def house(world: World, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[House]:
    one = House(world, tmp_path / "access", clock)
    yield one
    await one.http.aclose()


async def test_nobody_gets_in_unknown(house: House) -> None:
    assert (await house.http.get("/api/v1/fleet")).status_code == 401
    assert (await house.http.get("/api/v1/session")).status_code == 401
    for shown in ("nonsense", "pdctl-session-x", "pdctl-admin-x"):
        headers = {"authorization": f"Bearer {shown}"}
        assert (await house.http.get("/api/v1/fleet", headers=headers)).status_code == 401


async def test_a_session_says_who_it_is_and_ends(house: House) -> None:
    headers = await house.as_("vera")
    who = (await house.http.get("/api/v1/session", headers=headers)).json()
    assert (who["name"], who["role"], who["kind"], who["users"]) == ("vera", "viewer", "user", True)
    assert (await house.http.delete("/api/v1/session", headers=headers)).status_code == 204
    assert (await house.http.get("/api/v1/session", headers=headers)).status_code == 401
    assert house.told[-2:] == [("sign_in", "vera", "done"), ("sign_out", "vera", "done")]


@pytest.mark.parametrize("role", list(Role))
async def test_the_server_enforces_each_role(house: House, role: Role) -> None:
    headers = await house.as_(NAMES[role])
    assert (await house.http.get("/api/v1/fleet", headers=headers)).status_code == 200
    mode = await house.http.put("/api/v1/mode", json={"mode": "chunked"}, headers=headers)
    plan = await house.http.post(
        "/api/v1/plans", json={"change": {"sizes": {"decode": 2}}}, headers=headers
    )
    may = role.covers(Role.OPERATOR)
    assert (mode.status_code, plan.status_code) == ((200, 201) if may else (403, 403))
    if not may:
        said = mode.json()
        assert said["code"] == "forbidden"
        assert "takes the role operator; vera has the role viewer" in said["detail"]
        assert house.world.state.fleet.desired.mode == "pd"
    file = await house.http.post("/api/v1/plans", json={"change": {"file": FILE}}, headers=headers)
    put = await house.http.put("/api/v1/fleet", json={"file": FILE}, headers=headers)
    if role is Role.ADMIN:
        assert 403 not in (file.status_code, put.status_code)
    else:
        assert (file.status_code, put.status_code) == (403, 403)


async def test_an_operator_cannot_apply_what_an_admin_planned_with_a_file(house: House) -> None:
    admin, operator = await house.as_("ada"), await house.as_("otto")
    text = FILE + "[pools.decode]\nsize = 1\n[engine.args]\nmax-num-seqs = 3\n"
    plan = await house.http.post("/api/v1/plans", json={"change": {"file": text}}, headers=admin)
    assert plan.status_code == 201, plan.text
    path = f"/api/v1/plans/{plan.json()['id']}/apply"
    refused = await house.http.post(path, headers=operator)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "changes what is executed" in refused.json()["detail"]


async def test_tokens_and_the_servers_own_have_their_roles(house: House) -> None:
    mode = {"mode": "chunked"}
    for token, name in ((TOKEN, "ci"), ("of-the-server", "token")):
        headers = {"authorization": f"Bearer {token}"}
        answer = await house.http.put("/api/v1/mode", json=mode, headers=headers)
        assert answer.status_code == 200
        assert (await house.http.get("/api/v1/session", headers=headers)).json()["name"] == name
    ci = {"authorization": f"Bearer {TOKEN}"}
    assert (await house.http.post("/api/v1/detach", headers=ci)).status_code == 403


async def test_wrong_passwords_are_written_down_and_slowed(house: House) -> None:
    for _ in range(5):
        assert (await house.enter("ada", "wrong")).status_code == 401
    answer = await house.enter("ada")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert house.told == [("sign_in", "ada", "refused")] * 5
    await house.enter("a-password-typed-into-the-name", "x")
    assert house.told[-1] == ("sign_in", "somebody unknown", "refused")
    everything = repr([one.data for one in house.world.feed.recent(50)])
    assert "a-password" not in everything
    assert "wrong" not in everything.replace("wrong name or password", "")


async def test_only_the_console_inside_may_name_another_address(house: House) -> None:
    body = {"user": "ada", "password": "wrong"}
    for peer in range(5):
        headers = {"X-Pdctl-Peer": f"10.0.0.{peer}"}
        await house.http.post("/api/v1/session", json=body, headers=headers)
    assert (await house.enter("ada")).status_code == 429
    inside = httpx2.ASGITransport(house.api, client=(INSIDE, 0))
    async with httpx2.AsyncClient(transport=inside, base_url="http://fleet.example") as web:
        right = {"user": "ada", "password": PASSWORD}
        answer = await web.post("/api/v1/session", json=right, headers={"X-Pdctl-Peer": "10.0.0.9"})
        assert answer.status_code == 201


async def test_a_session_is_no_ones_to_keep(house: House) -> None:
    body = {"user": "ada", "password": PASSWORD}
    headers = {"Idempotency-Key": "same"}
    one = await house.http.post("/api/v1/session", json=body, headers=headers)
    two = await house.http.post("/api/v1/session", json=body, headers=headers)
    assert one.json()["token"] != two.json()["token"]
    assert "idempotency-replayed" not in two.headers


async def test_pages_of_other_sites_sign_nobody_in(house: House) -> None:
    body = {"user": "ada", "password": PASSWORD}
    answer = await house.http.post(
        "/api/v1/session", json=body, headers={"origin": "http://evil.example"}
    )
    assert answer.status_code == 403


async def test_without_users_there_is_nothing_to_sign_in_to(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/api/v1/session", json={"user": "a", "password": "b"})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_users")
    who = (await http.get("/api/v1/session")).json()
    assert (who["name"], who["role"], who["users"]) == ("loopback", "admin", False)
