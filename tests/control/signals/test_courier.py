"""The webhook is told in order, at least once, and never holds anybody up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any

import pytest

from pdctl.control.signals.courier import KEPT, Courier, PostError, body
from pdctl.domain.signals.book import Signal, State
from pdctl.domain.signals.rules import Severity
from pdctl.domain.topology import WebhookSpec
from pdctl.tasks import settle, spawn
from tests.fakes.clock import VirtualClock


def signal(subject: str = "decode-0", state: State = State.FIRING, at: float = 100.0) -> Signal:
    """One that fired at `at`."""
    return Signal(
        "stall", subject, Severity.CRITICAL, state, since=at, seen_at=at, value=20, worst=20,
        detail="2 requests are running", fired_at=at,
        resolved_at=at + 60 if state is State.RESOLVED else None,
    )  # fmt: skip


class Hook:
    """A webhook that answers what it is told to, in turn; 200 when nothing is left."""

    def __init__(self, *answers: int | str) -> None:
        self.answers = [*answers]
        self.told: list[list[tuple[str, str]]] = []

    async def post(self, address: str, said: dict[str, Any], timeout_s: float) -> int:
        assert address == "env:HOOK"
        assert timeout_s == 2.0
        self.told.append([(one["labels"]["subject"], one["status"]) for one in said["alerts"]])
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, str):
            raise PostError(answer)
        return answer


class Sending:
    """A courier at work."""

    def __init__(self, clock: VirtualClock, hook: Hook) -> None:
        self.spec = WebhookSpec("env:HOOK", 2.0)
        self.delivered: list[str] = []
        self.courier = Courier(
            hook.post, clock, spec=lambda: self.spec, delivered=self._delivered, fleet="f",
            rng=Random(1),
        )  # fmt: skip
        self.task = spawn(self.courier.run(), name="courier")

    def _delivered(self, signals: Sequence[Signal]) -> None:
        self.delivered += [one.subject for one in signals]


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
async def sending(clock: VirtualClock, hook: Hook) -> AsyncIterator[Sending]:
    one = Sending(clock, hook)
    yield one
    await settle(one.task)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_what_fails_is_tried_again_until_it_is_taken(
    clock: VirtualClock, hook: Hook, sending: Sending
) -> None:
    hook.answers = [500, "it cannot be reached", 429]
    sending.courier.tell(signal())
    sending.courier.tell(signal())  # the same again is one note
    await clock.settle()
    assert (sending.courier.failures, sending.delivered) == (1, [])
    assert sending.courier.error == "it answered 500; 1 notes wait"
    sending.courier.tell(signal("decode-1"))
    await clock.until(lambda: bool(sending.delivered), limit_s=10)
    assert hook.told == [
        [("decode-0", "firing")],
        *[[("decode-0", "firing"), ("decode-1", "firing")]] * 3,
    ]
    assert sending.delivered == ["decode-0", "decode-1"]
    assert (sending.courier.failures, sending.courier.error) == (0, "")
    await clock.advance(600)
    assert len(hook.told) == 4


async def test_a_note_that_is_refused_for_good_does_not_hold_up_others(
    clock: VirtualClock, hook: Hook, sending: Sending
) -> None:
    hook.answers = [404]
    sending.courier.tell(signal())
    await clock.settle()
    assert sending.courier.failures == 1
    assert sending.courier.error == "it answered 404"
    assert sending.delivered == ["decode-0"]  # nobody needs to tell it again
    sending.courier.tell(signal("decode-1"))
    await clock.until(lambda: len(sending.delivered) == 2, limit_s=10)
    assert hook.told == [[("decode-0", "firing")], [("decode-1", "firing")]]


async def test_the_queue_is_bounded_and_pauses_grow_to_a_minute(
    clock: VirtualClock, hook: Hook, sending: Sending
) -> None:
    hook.answers = [503] * 1000
    for number in range(KEPT + 5):
        sending.courier.tell(signal(f"decode-{number}"))
    await clock.advance(600)
    tries = len(hook.told)
    assert 600 / 60 <= tries <= 600 / 30 + 7
    assert hook.told[0][0] == ("decode-5", "firing")  # the oldest went
    hook.answers = []
    await clock.until(lambda: len(sending.delivered) == KEPT, limit_s=120)


async def test_no_address_is_nobody_to_tell(clock: VirtualClock, hook: Hook) -> None:
    hook.answers = [500] * 3
    sending = Sending(clock, hook)
    try:
        sending.courier.tell(signal())
        await clock.settle()
        sending.spec = WebhookSpec()
        assert sending.courier.failures is None
        await clock.advance(60)
        sending.courier.tell(signal("decode-1"))
        sending.spec = WebhookSpec("env:HOOK", 2.0)
        await clock.advance(60)
        assert len(hook.told) == 1
        assert sending.courier.failures == 0
    finally:
        await settle(sending.task)


def test_the_body_is_what_alertmanager_posts() -> None:
    said = body([signal(state=State.RESOLVED), signal("decode-1")], "f")
    assert (said["version"], said["status"], said["receiver"]) == ("4", "firing", "pdctl")
    over, fires = said["alerts"]
    assert (over["status"], fires["status"]) == ("resolved", "firing")
    assert over["labels"] == {
        "alertname": "stall", "severity": "critical", "fleet": "f", "subject": "decode-0",
    }  # fmt: skip
    assert (over["startsAt"], over["endsAt"]) == ("1970-01-01T00:01:40Z", "1970-01-01T00:02:40Z")
    assert fires["endsAt"].startswith("0001-")
    assert "pdctl restart decode-1" in fires["annotations"]["knob"]
    assert over["fingerprint"] == "stall:decode-0@100.000"
    assert body([signal(state=State.RESOLVED)], "f")["status"] == "resolved"
