"""What a face is told when something is wrong: the class, the sentence, the hint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from pdctl.client.admin import AdminClient
from pdctl.client.errors import (
    ClientError,
    Conflict,
    Denied,
    Failed,
    NotFound,
    Unreachable,
)

Handler = Callable[[httpx2.Request], httpx2.Response]


def answering(handler: Handler) -> AdminClient:
    return AdminClient("http://127.0.0.1:9", transport=httpx2.MockTransport(handler))


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Denied), (403, Denied), (404, NotFound), (409, Conflict), (412, Conflict),
     (400, Failed), (422, Failed), (500, Failed), (503, Failed)],
)  # fmt: skip
async def test_a_problem_keeps_its_words(status: int, kind: type[ClientError]) -> None:
    body = {
        "title": "T",
        "status": status,
        "detail": "What happened.",
        "code": "c",
        "hint": "Do x.",
    }
    headers = {"content-type": "application/problem+json; charset=utf-8"}
    async with answering(lambda _: httpx2.Response(status, json=body, headers=headers)) as client:
        with pytest.raises(kind) as caught:
            await client.fleet()
    assert type(caught.value) is kind
    assert str(caught.value) == "What happened. Do x."
    assert caught.value.problem.code == "c"


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(502, text="<html>Bad gateway</html>"),
        httpx2.Response(500, content=b"\xff", headers={"content-type": "application/problem+json"}),
        httpx2.Response(500, json=[], headers={"content-type": "application/problem+json"}),
    ],
)
async def test_an_answer_of_something_else_says_so(answer: httpx2.Response) -> None:
    async with answering(lambda _: answer) as client:
        with pytest.raises(Failed, match="without a problem document"):
            await client.fleet()


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"[1]", b'{"seq": "many"}'])
async def test_a_good_status_with_nonsense_is_a_failure_not_a_crash(body: bytes) -> None:
    async with answering(lambda _: httpx2.Response(200, content=body)) as client:
        with pytest.raises(Failed, match="cannot read"):
            await client.fleet()
        with pytest.raises(Failed, match="cannot read"):
            await client.pools()


async def test_no_answer_names_the_place_and_the_fix() -> None:
    async with AdminClient("http://127.0.0.1:1/") as client:
        with pytest.raises(Unreachable) as caught:
            await client.fleet()
    assert "http://127.0.0.1:1 cannot be reached" in str(caught.value)
    assert "pdctl serve" in caught.value.problem.hint


async def test_too_late_an_answer_is_said_to_be_late() -> None:
    def late(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("late", request=request)

    async with answering(late) as client:
        with pytest.raises(Unreachable, match="did not answer in time"):
            await client.fleet()


async def test_newer_fields_are_ignored() -> None:
    body: dict[str, object] = {"mode": "pd", "since": None, "inflight": {}, "aura": "green"}
    async with answering(lambda _: httpx2.Response(200, json=body)) as client:
        assert (await client.mode()).mode == "pd"


async def test_each_caller_has_its_own_token() -> None:
    seen: list[str] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("authorization", ""))
        return httpx2.Response(200, json={"mode": "pd"})

    async with answering(note) as client:
        await asyncio.gather(
            client.mode(), client.acting_as("a").mode(), client.acting_as("b").mode()
        )
        await client.mode()
    assert sorted(seen) == ["", "", "Bearer a", "Bearer b"]
