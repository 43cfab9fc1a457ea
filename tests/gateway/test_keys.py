"""API keys at the front door: who is let in, for how much, and who hears of the key."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Rogues
from tests.gateway.desk import COMPLETIONS, Desk
from tests.gateway.rogue import Seen, whole_text

from pdctl.domain.handoff import Outcome
from pdctl.domain.keys import ApiKey, digest
from pdctl.domain.topology import Mode, RouterSpec
from pdctl.gateway.keys import Denial, Keyring

ALICE, BOB = "pdctl-alices-key", "pdctl-bobs-key"
BODY = {"model": "tiny", "prompt": "hello"}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def entry(name: str, key: str, more: str = "") -> str:
    return f'[{name}]\nsha256 = "{digest(key)}"\n{more}\n'


def write(file: Path, *entries: str) -> None:
    file.write_text("".join(entries))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(entry("alice", ALICE) + entry("bob", BOB, "concurrent = 1"))
    return path


async def test_without_a_known_key_nobody_is_let_in(desk: Desk, rogues: Rogues, file: Path) -> None:
    rogue = await rogues("d0")
    await desk.push(Mode.CHUNKED, keys_file=str(file))
    for headers in ({}, bearer("sk-other"), {"Authorization": f"Basic {ALICE}"}):
        for path in (COMPLETIONS, "/v1/embeddings", "/v1/nothing"):
            async with desk.client.post(path, json=BODY, headers=headers) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"] == "Bearer"
                assert (await answer.json())["error"]["type"] == "AuthenticationError"
        async with desk.client.get("/v1/models", headers=headers) as answer:
            assert answer.status == 401
    async with desk.client.get("/health") as answer:
        assert answer.status == 200
    assert rogue.seen == []
    assert desk.records == []


@pytest.mark.parametrize("headers", [bearer(ALICE), {"X-Api-Key": ALICE}])
async def test_a_key_reaches_neither_engine_nor_record_nor_log(
    desk: Desk, rogues: Rogues, file: Path, headers: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    rogue = await rogues("d0")
    rogue.script = whole_text
    await desk.push(Mode.CHUNKED, keys_file=str(file))
    assert (await desk.post(COMPLETIONS, BODY, headers=headers))[0] == 200
    assert (await desk.post("/v1/embeddings", BODY, headers=headers))[0] == 200
    record = await desk.record(2)
    assert record.key == "alice"
    said = repr(rogue.seen) + repr(desk.records) + caplog.text
    assert ALICE not in said
    assert not any("authorization" in map(str.lower, one.headers) for one in rogue.seen)


async def test_without_a_keys_file_authorization_is_the_engines(desk: Desk, rogues: Rogues) -> None:
    rogue = await rogues("d0")
    rogue.script = whole_text
    await desk.push(Mode.CHUNKED)
    assert (await desk.post(COMPLETIONS, BODY, headers=bearer("theirs")))[0] == 200
    assert "Bearer theirs" in rogue.seen[0].headers.values()


async def test_one_key_may_have_so_many_open(desk: Desk, rogues: Rogues, file: Path) -> None:
    rogue, gate = await rogues("d0"), asyncio.Event()

    async def wait(seen: Seen) -> None:
        await gate.wait()
        await whole_text(seen)

    rogue.script = wait
    await desk.push(Mode.CHUNKED, keys_file=str(file))
    first = asyncio.ensure_future(desk.post(COMPLETIONS, BODY, headers=bearer(BOB)))
    await until(lambda: len(rogue.seen) == 1)
    async with desk.client.post(COMPLETIONS, json=BODY, headers=bearer(BOB)) as answer:
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "1"
        assert "1 requests open at a time" in (await answer.json())["error"]["message"]
    other = asyncio.ensure_future(desk.post(COMPLETIONS, BODY, headers=bearer(ALICE)))
    await until(lambda: len(rogue.seen) == 2)
    gate.set()
    assert [(await first)[0], (await other)[0]] == [200, 200]
    assert (await desk.post(COMPLETIONS, BODY, headers=bearer(BOB)))[0] == 200
    await until(lambda: len(desk.records) == 4)
    told = {(one.key, one.outcome) for one in desk.records}
    assert told == {("bob", Outcome.OVERLOADED), ("bob", Outcome.OK), ("alice", Outcome.OK)}


async def test_a_removed_key_ends_and_a_broken_file_changes_nothing(
    desk: Desk, rogues: Rogues, file: Path
) -> None:
    (await rogues("d0")).script = whole_text
    await desk.push(Mode.CHUNKED, keys_file=str(file))

    async def status(key: str) -> int:
        found: int = (await desk.post(COMPLETIONS, BODY, headers=bearer(key)))[0]
        return found

    async def becomes(key: str, wanted: int) -> None:
        async with asyncio.timeout(20):
            while await status(key) != wanted:  # noqa: ASYNC110 - only a request shows it
                await asyncio.sleep(0.05)

    assert await status(ALICE) == 200
    write(file, entry("bob", BOB))
    await becomes(ALICE, 401)
    assert await status(BOB) == 200
    write(file, entry("bob", BOB), "[alice")
    write(file, entry("bob", BOB), entry("alice", ALICE))
    await becomes(ALICE, 200)


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def test_requests_in_any_minute_are_counted_exactly() -> None:
    clock, key = Hand(), ApiKey("a", "", requests_per_minute=3)
    ring = Keyring(clock)

    def enter() -> int | None:
        denial = ring.enter(key, RouterSpec(), "m")
        if denial is None:
            ring.leave(key)
            return None
        assert denial.status == 429
        return denial.retry_after_s

    assert [enter() for _ in range(4)] == [None, None, None, 60]
    clock.at += 59.5
    assert enter() == 1
    clock.at += 0.5
    assert [enter() for _ in range(4)] == [None, None, None, 60]
    assert ring.open() == 0


@pytest.mark.parametrize(("workers", "share"), [(0, 6), (1, 6), (4, 2), (64, 1)])
def test_limits_are_divided_among_workers_and_it_is_said(workers: int, share: int) -> None:
    ring, key = Keyring(Hand()), ApiKey("a", "", concurrent=6)
    limits = RouterSpec(workers=workers)
    answers = [ring.enter(key, limits, "m") for _ in range(share + 1)]
    assert answers[:-1] == [None] * share
    assert answers[-1] is not None
    assert ("at each router worker" in answers[-1].message) == (share != 6)


def test_a_key_for_another_model_is_403() -> None:
    ring, key = Keyring(Hand()), ApiKey("a", "", models=("large",))
    denial = ring.enter(key, RouterSpec(), "tiny")
    assert denial is not None
    assert denial.status == 403
    assert ring.enter(key, RouterSpec(), "large") is None


def test_nobody_is_let_in_while_the_file_was_never_read(tmp_path: Path) -> None:
    clock, file = Hand(), tmp_path / "keys.toml"
    ring, headers = Keyring(clock), bearer(ALICE)

    def who() -> Any:
        found = ring.who(headers, str(file))
        return found.status if isinstance(found, Denial) else found.name

    assert who() == 503
    file.write_text(entry("alice", ALICE))
    assert who() == 503  # it is not looked at again so soon
    clock.at += 1.0
    assert who() == "alice"
    file.write_text("[alice")
    clock.at += 1.0
    assert who() == "alice"
    file.unlink()
    clock.at += 1.0
    assert who() == "alice"
    file.write_text("")
    clock.at += 1.0
    assert who() == 401
