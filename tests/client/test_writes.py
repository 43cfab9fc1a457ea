"""A write whose answer is lost is sent again with its key, and done once."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

from pdctl.client import transport
from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict, Unreachable
from pdctl.client.transport import KEY, RETRIES_S
from pdctl.contract.plans import ChangeBody

MODE = {"mode": "pd"}
PROBLEM = {"content-type": "application/problem+json"}
Reply = Callable[[], httpx2.Response]


class Wire:
    """Answers in turn, and remembers what was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self.replies.pop(0)()

    @property
    def client(self) -> AdminClient:
        return AdminClient("http://127.0.0.1:9", transport=httpx2.MockTransport(self))

    @property
    def keys(self) -> set[str | None]:
        return {request.headers.get(KEY) for request in self.asked}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RETRIES_S", (0.0,) * len(RETRIES_S))


def done() -> httpx2.Response:
    return httpx2.Response(200, json=MODE)


def lost() -> httpx2.Response:
    raise httpx2.ReadError("gone")


def down() -> httpx2.Response:
    raise httpx2.ConnectError("refused")


def conflict(code: str) -> Reply:
    body = {"title": "T", "status": 409, "detail": "Not now.", "code": code}
    return lambda: httpx2.Response(409, json=body, headers=PROBLEM)


async def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    wire = Wire(lost, down, conflict("write_under_way"), done)
    async with wire.client as client:
        assert (await client.set_mode("pd")).mode == "pd"
    assert len(wire.asked) == 4
    assert len(wire.keys) == 1
    assert None not in wire.keys


async def test_each_write_has_a_key_of_its_own() -> None:
    wire = Wire(done, done)
    async with wire.client as client:
        await client.set_mode("pd")
        await client.set_mode("pd")
    assert len(wire.keys) == 2


async def test_what_never_left_is_not_tried_again() -> None:
    wire = Wire(down)
    async with wire.client as client:
        with pytest.raises(Unreachable, match="cannot be reached"):
            await client.set_mode("pd")


async def test_what_stays_unanswered_says_where_to_look() -> None:
    wire = Wire(lost, *[down] * len(RETRIES_S))
    async with wire.client as client:
        with pytest.raises(Unreachable, match="pdctl operations"):
            await client.set_mode("pd")
    assert not wire.replies


async def test_other_conflicts_are_told_at_once() -> None:
    wire = Wire(conflict("outcome_unknown"))
    async with wire.client as client:
        with pytest.raises(Conflict, match="Not now"):
            await client.set_mode("pd")


async def test_a_revision_that_was_seen_goes_along() -> None:
    wire = Wire(done)
    async with wire.client as client:
        await client.set_mode("pd", revision=7)
    assert wire.asked[0].headers["if-match"] == '"7"'


async def test_reading_and_rehearsing_need_no_key() -> None:
    wire = Wire(conflict("x"), conflict("x"), conflict("x"))
    async with wire.client as client:
        for ask in (client.fleet(), client.plan(ChangeBody()), client.plan_undo(3)):
            with pytest.raises(Conflict):
                await ask
    assert wire.keys == {None}
