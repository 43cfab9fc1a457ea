"""Circuit breakers: what opens them, the one that tries, and what closes them."""

from __future__ import annotations

import asyncio

import pytest
from tests.fakes.waiting import until
from tests.gateway.conftest import Rogues
from tests.gateway.desk import Desk
from tests.gateway.rogue import Script, Seen, hang, whole_text
from tests.routing.boards import table, target

from pdctl.domain.handoff import Outcome
from pdctl.domain.topology import Mode
from pdctl.gateway.breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, RUN, Breakers

ONE = target("d0")


def answer(status: int) -> Script:
    async def play(seen: Seen) -> None:
        await seen.json({"error": {"message": "engine says no", "code": status}}, status)

    return play


class Time:
    """Monotonic time by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def breakers(time: Time) -> Breakers:
    return Breakers(time)


def refused(breakers: Breakers) -> float | None:
    return breakers.failed(ONE, "connect: Connection refused", at_once=True)


def test_pauses_double_until_an_answer(breakers: Breakers, time: Time) -> None:
    pauses = []
    for _ in range(8):
        pauses.append(refused(breakers) or 0.0)
        assert breakers.closed_to() == {"d0"}
        time.now += pauses[-1]
        assert not breakers.closed_to()
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert breakers.worked(ONE)
    assert breakers.circuits() == {}
    assert refused(breakers) == FIRST_PAUSE_S


def test_failures_of_one_moment_count_once(breakers: Breakers, time: Time) -> None:
    assert [refused(breakers) for _ in range(50)] == [FIRST_PAUSE_S] * 50
    time.now = FIRST_PAUSE_S
    assert not breakers.closed_to()


def test_a_new_start_is_not_suspect(breakers: Breakers) -> None:
    refused(breakers)
    breakers.renew(table("d0"))
    assert breakers.closed_to() == {"d0"}
    breakers.renew(table())
    assert not breakers.closed_to()


def test_only_a_run_of_other_failures_opens_it(breakers: Breakers) -> None:
    for _ in range(3):
        for _ in range(RUN - 1):
            assert breakers.failed(ONE, "status: status 500") is None
        assert not breakers.closed_to()
        assert not breakers.worked(ONE)
    for _ in range(RUN - 1):
        breakers.failed(ONE, "timeout: no answer within 9 s")
    assert breakers.failed(ONE, "status: status 500") == FIRST_PAUSE_S
    circuit = breakers.circuits()["d0"]
    assert circuit.state == "open"
    assert circuit.why == "5 failures in a row, the last: status: status 500"


def test_half_open_lets_one_try(breakers: Breakers, time: Time) -> None:
    refused(breakers)
    time.now = FIRST_PAUSE_S
    assert breakers.circuits()["d0"].state == "half_open"
    first, second = object(), object()
    breakers.entered(["d0", "p0"], first)
    assert breakers.closed_to() == {"d0"}
    breakers.left("d0", second)
    assert breakers.closed_to() == {"d0"}
    breakers.left("d0", first)
    assert not breakers.closed_to()
    breakers.entered(["d0"], second)
    assert breakers.failed(ONE, "timeout: no answer within 9 s") == 2 * FIRST_PAUSE_S
    assert breakers.circuits()["d0"].state == "open"


async def test_a_run_of_500_opens_the_circuit_and_one_request_closes_it(
    desk: Desk, rogues: Rogues
) -> None:
    bad, good = await rogues("d0"), await rogues("d1")
    bad.script, good.script = answer(500), whole_text
    await desk.push(Mode.CHUNKED)
    async with asyncio.timeout(20):
        while "d0" not in desk.plane.load.circuits:
            assert (await desk.complete())[0] == 200  # tried again on the other
    assert len(bad.seen) == RUN
    assert desk.plane.load.circuits["d0"].why.endswith("status: status 500")
    await until(lambda: any("d0" in one.circuits for one in desk.loads))
    gate = asyncio.Event()

    async def slow(seen: Seen) -> None:
        await gate.wait()
        await whole_text(seen)

    bad.script = slow
    await until(lambda: desk.plane.load.circuits["d0"].state == "half_open")
    tries: list[asyncio.Task[tuple[int, object]]] = []
    async with asyncio.timeout(20):
        while len(bad.seen) == RUN:
            tries.append(asyncio.ensure_future(desk.complete()))
            await asyncio.sleep(0.01)
    for _ in range(10):
        assert (await desk.complete())[0] == 200
    assert len(bad.seen) == RUN + 1
    gate.set()
    assert {(await one)[0] for one in tries} == {200}
    await until(lambda: not desk.plane.load.circuits)
    await desk.idle()


async def test_a_4xx_is_an_answer(desk: Desk, rogues: Rogues) -> None:
    (await rogues("d0")).script = answer(400)
    await desk.push(Mode.CHUNKED)
    for _ in range(3 * RUN):
        assert (await desk.complete())[0] == 400
    assert desk.plane.load.circuits == {}


async def test_who_has_no_other_way_waits_for_the_one_that_tries(
    desk: Desk, rogues: Rogues
) -> None:
    rogue = await rogues("d0")
    rogue.script = hang
    await desk.push(Mode.CHUNKED, first_byte_timeout_s=0.05, retries=0)
    for _ in range(RUN):
        assert (await desk.complete())[0] == 504
    assert (await desk.complete())[0] == 503
    assert (await desk.record(RUN + 1)).outcome is Outcome.NO_INSTANCE
    await desk.push(Mode.CHUNKED, first_byte_timeout_s=20, retries=0)
    await until(lambda: desk.plane.load.circuits["d0"].state == "half_open")
    leaves = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.inflight == {"d0": 1})
    waits = asyncio.ensure_future(desk.complete())
    await until(lambda: desk.plane.load.queued == 1)
    rogue.script = whole_text
    leaves.cancel()
    assert (await waits)[0] == 200
    await desk.idle()
    assert desk.plane.load.circuits == {}
