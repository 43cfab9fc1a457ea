"""The handoff machine as a playbook: what happened (>>), what is to be done (<<)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.routing.boards import board

from pdctl.domain.handoff import Outcome, Path
from pdctl.domain.topology import Mode
from pdctl.routing.facts import RequestFacts
from pdctl.routing.machine import (
    AGE_GUARD,
    TABLE,
    Handoff,
    HandoffError,
    Stage,
    advance,
    start,
)
from pdctl.routing.router import Avoid, Refusal, Route, decide
from pdctl.routing.signals import (
    BreakOff,
    ClientGone,
    Command,
    ErrorRelayed,
    Event,
    Failed,
    Failure,
    FindRoute,
    Finish,
    Finished,
    FirstToken,
    Forward,
    Hold,
    ParamsMissing,
    PrefillReplied,
    Refuse,
    Refused,
    Rejected,
    Relay,
    Release,
    Routed,
    SendDecode,
    SendPrefill,
    SendWhole,
    SingleUse,
    Started,
)

LEASE_S = 10.0


def route(*ids: str, avoid: Avoid | None = None, **more: Any) -> Route:
    facts = RequestFacts("/v1/completions", blocker=more.pop("blocker", ""))
    found = decide(facts, board(*ids, **more), {}, None, avoid)  # type: ignore[arg-type]
    assert isinstance(found, Route)
    return found


PD = route("p0", "p1", "d0", "d1", retries=1)
WHOLE = route("p0", "d0", mode=Mode.CHUNKED, retries=1)


def params() -> SingleUse:
    return SingleUse({"remote_host": "x"})


class Playbook:
    """Feeds events and keeps what came out, in short words."""

    def __init__(self, *, may_resend: bool = True) -> None:
        self.handoff, commands = start(may_resend=may_resend)
        assert short(commands) == ["find"]
        self.commands: tuple[Command, ...] = commands

    def feed(self, event: Event) -> list[str]:
        self.handoff, self.commands = advance(self.handoff, event)
        return short(self.commands)

    def find(self, kind: type) -> Any:
        return next(one for one in self.commands if isinstance(one, kind))


def short(commands: tuple[Command, ...]) -> list[str]:
    return [_word(one) for one in commands]


def _word(one: Command) -> str:
    name, field = WORDS[type(one)]
    if isinstance(one, FindRoute):
        pairs = [f"{prefill}>{decode}" for prefill, decode in sorted(one.avoid.pairs)]
        names = [*sorted(one.avoid.instances), *pairs]
        return " ".join([name, *(f"not:{other}" for other in names)])
    if not field:
        return name
    value = getattr(one, field)
    return f"{name} {getattr(value, 'id', value)}"


WORDS: dict[type, tuple[str, str]] = {
    FindRoute: ("find", ""),
    SendPrefill: ("prefill", "target"),
    SendDecode: ("decode", "target"),
    SendWhole: ("whole", "target"),
    Hold: ("hold", "instance"),
    Release: ("release", "instance"),
    Relay: ("relay", ""),
    Forward: ("forward", "status"),
    Refuse: ("refuse", "status"),
    BreakOff: ("break off", "status"),
    Finish: ("finish", "outcome"),
}


def test_a_handoff_from_end_to_end() -> None:
    book = Playbook()
    assert book.feed(Routed(PD)) == ["prefill p0"]
    assert book.feed(PrefillReplied(params(), 0.0)) == ["hold p0", "decode d0"]
    assert book.feed(Started()) == ["release p0", "relay"]
    assert book.feed(Finished()) == ["release d0", "finish ok"]


def test_prefill_is_held_until_the_first_token_says_that_its_kv_was_pulled() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    book.feed(PrefillReplied(params(), 0.0))
    assert book.feed(Started(has_token=False)) == ["relay"]
    assert book.feed(FirstToken()) == ["release p0", "relay"]
    assert book.feed(Finished()) == ["release d0", "finish ok"]


def test_a_client_that_was_left_is_named() -> None:
    book = Playbook()
    book.feed(Routed(WHOLE))
    book.feed(Started())
    book.feed(ClientGone("client took nothing for 60 s"))
    assert book.find(Finish).error == "client took nothing for 60 s while answering"


def test_a_whole_request_from_end_to_end() -> None:
    book = Playbook()
    assert book.feed(Routed(WHOLE)) == ["whole d0"]
    assert book.feed(Started()) == ["relay"]
    assert book.feed(Finished(204)) == ["release d0", "finish ok"]
    assert book.find(Finish).status == 204


@pytest.mark.parametrize("status", [400, 404, 413, 422, 429, 501])
def test_an_engines_word_on_the_request_is_the_clients_answer(status: int) -> None:
    at_prefill = Playbook()
    at_prefill.feed(Routed(PD))
    gone = [f"forward {status}", "finish rejected"]
    assert at_prefill.feed(Rejected(status)) == ["release p0", "release d0", *gone]
    at_decode = Playbook()
    at_decode.feed(Routed(PD))
    at_decode.feed(PrefillReplied(params(), 0.0))
    assert at_decode.feed(Rejected(status)) == ["release p0", "release d0", *gone]
    whole = Playbook()
    whole.feed(Routed(WHOLE))
    assert whole.feed(Rejected(status)) == ["release d0", *gone]


@pytest.mark.parametrize("how", [Failure.CONNECT, Failure.TIMEOUT, Failure.DIED, Failure.ABORTED])
def test_a_failed_prefill_is_tried_elsewhere_once(how: Failure) -> None:
    book = Playbook()
    book.feed(Routed(PD))
    assert book.feed(Failed(how)) == ["release p0", "release d0", "find not:p0"]
    other = route("p0", "p1", "d0", "d1", avoid=book.find(FindRoute).avoid, retries=1)
    assert book.feed(Routed(other)) == ["prefill p1"]
    assert book.handoff.retries == 1
    last = book.feed(Failed(how))
    assert last[:2] == ["release p1", "release d0"]
    assert last[2].startswith("refuse 5")


def test_a_failed_decode_goes_back_to_prefill() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    book.feed(PrefillReplied(params(), 0.0))
    assert book.feed(Failed(Failure.CONNECT)) == ["release p0", "release d0", "find not:d0"]
    assert book.feed(Routed(PD)) == ["prefill p0"]


def test_a_decode_that_could_not_load_kv_blames_the_pair() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    book.feed(PrefillReplied(params(), 0.0))
    failed = Failed(Failure.STATUS, "Internal server error", 500)
    assert book.feed(failed) == ["release p0", "release d0", "find not:p0>d0"]


def test_a_full_engine_is_left_for_another() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    book.feed(PrefillReplied(params(), 0.0))
    failed = Failed(Failure.STATUS, "queue full", 503)
    assert book.feed(failed) == ["release p0", "release d0", "find not:d0"]


@pytest.mark.parametrize(
    ("failed", "status", "outcome"),
    [
        (Failed(Failure.CONNECT), 502, Outcome.UPSTREAM_ERROR),
        (Failed(Failure.DIED), 502, Outcome.UPSTREAM_ERROR),
        (Failed(Failure.TIMEOUT), 504, Outcome.TIMEOUT),
        (Failed(Failure.STATUS, "x", 500), 500, Outcome.UPSTREAM_ERROR),
        (Failed(Failure.STATUS, "x", 503), 503, Outcome.UPSTREAM_ERROR),
        (Failed(Failure.ABORTED), 503, Outcome.UPSTREAM_ERROR),
        (Failed(Failure.STALE), 503, Outcome.UPSTREAM_ERROR),
    ],
)
def test_without_retries_each_failure_has_its_status(
    failed: Failed, status: int, outcome: Outcome
) -> None:
    book = Playbook()
    book.feed(Routed(route("p0", "d0", retries=0)))
    words = book.feed(failed)
    assert words == ["release p0", "release d0", f"refuse {status}", f"finish {outcome}"]


def test_when_nothing_else_is_there_the_first_failure_is_the_answer() -> None:
    book = Playbook()
    book.feed(Routed(WHOLE))
    book.feed(Failed(Failure.TIMEOUT))
    assert book.feed(Refused(Refusal(503, "none"))) == ["refuse 504", "finish timeout"]


def test_no_room_and_no_instance_are_told_apart() -> None:
    full = Playbook().feed(Refused(Refusal(429, "full", wait=True)))
    none = Playbook().feed(Refused(Refusal(503, "none")))
    assert full == ["refuse 429", "finish overloaded"]
    assert none == ["refuse 503", "finish no_instance"]


def test_missing_params_are_served_whole_on_the_reserved_decode_and_said() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    assert book.feed(ParamsMissing("lacks x")) == ["release p0", "whole d0"]
    assert book.handoff.route is not None
    assert (book.handoff.path, book.handoff.route.path_reason) == (
        Path.AGGREGATED,
        "params_missing",
    )
    assert "lacks x" in book.find(SendWhole).why
    assert book.feed(Started()) == ["relay"]
    assert book.feed(Finished()) == ["release d0", "finish ok"]


def test_params_too_old_are_not_used() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    old = PrefillReplied(params(), AGE_GUARD * LEASE_S)
    assert book.feed(old) == ["release p0", "release d0", "find"]
    book.feed(Routed(PD))
    book.feed(PrefillReplied(params(), 2.0))
    assert book.find(SendDecode).within_s == pytest.approx(4.0)


def test_after_the_first_byte_there_is_no_second_try() -> None:
    book = Playbook()
    book.feed(Routed(PD))
    book.feed(PrefillReplied(params(), 0.0))
    book.feed(Started())
    words = book.feed(Failed(Failure.DIED))
    assert words == ["release d0", "break off 502", "finish truncated"]


def test_an_error_that_the_engine_told_the_client_is_not_told_twice() -> None:
    book = Playbook()
    book.feed(Routed(WHOLE))
    book.feed(Started())
    assert book.feed(ErrorRelayed("boom")) == ["release d0", "finish truncated"]


def test_a_request_with_effects_is_sent_again_only_if_it_never_arrived() -> None:
    died = Playbook(may_resend=False)
    died.feed(Routed(WHOLE))
    assert died.feed(Failed(Failure.DIED))[-1] == "finish upstream_error"
    refused = Playbook(may_resend=False)
    refused.feed(Routed(WHOLE))
    assert refused.feed(Failed(Failure.CONNECT)) == ["release d0", "find not:d0"]


def test_a_stopping_router_does_not_retry() -> None:
    book = Playbook()
    assert book.feed(Failed(Failure.STOPPED)) == ["refuse 503", "finish upstream_error"]
    book = Playbook()
    book.feed(Routed(PD))
    assert book.feed(Failed(Failure.STOPPED))[2:] == ["refuse 503", "finish upstream_error"]


def test_params_can_be_taken_once() -> None:
    once = params()
    assert once.take() == {"remote_host": "x"}
    with pytest.raises(RuntimeError, match="single-use"):
        once.take()


def test_an_impossible_event_is_loud() -> None:
    handoff, _ = start()
    with pytest.raises(HandoffError, match="Started at stage routing"):
        advance(handoff, Started())


def test_leaving_twice_is_leaving_once() -> None:
    book = Playbook()
    assert book.feed(ClientGone()) == ["finish client_gone"]
    assert book.feed(ClientGone()) == []


EVENTS: dict[type, st.SearchStrategy[Event]] = {
    Routed: st.sampled_from([Routed(PD), Routed(WHOLE)]),
    Refused: st.sampled_from([Refused(Refusal(503, "")), Refused(Refusal(429, "", wait=True))]),
    PrefillReplied: st.builds(lambda age: PrefillReplied(params(), age), st.floats(0, 12)),
    ParamsMissing: st.just(ParamsMissing("none")),
    Rejected: st.just(Rejected(400)),
    Failed: st.builds(Failed, st.sampled_from(Failure), st.just(""), st.sampled_from([500, 503])),
    Started: st.builds(Started, st.booleans()),
    FirstToken: st.just(FirstToken()),
    Finished: st.just(Finished()),
    ErrorRelayed: st.just(ErrorRelayed("x")),
    ClientGone: st.just(ClientGone()),
}


class World:
    """Carries out commands and watches the laws."""

    def __init__(self, retries: int) -> None:
        self.retries = retries
        self.open: set[str] = set()
        self.taken = self.sent = self.finished = 0
        self.begun = False

    def reserve(self, route_: Route) -> Routed:
        limits = replace(route_.table.limits, retries=self.retries)
        route_ = replace(route_, table=replace(route_.table, limits=limits))
        assert not self.open
        self.open = set(route_.instances)
        return Routed(route_)

    def obey(self, command: Command) -> None:
        assert not self.finished, "nothing follows the record"
        match command:
            case SendPrefill() | SendWhole():
                assert not self.begun
                self.sent += 1
                assert self.sent <= 2 * (self.retries + 1), "a retry beyond the budget"
            case SendDecode(target, _, once, within):
                assert not self.begun
                once.take()
                assert within > 0
                assert target.id in self.open, "decode was reserved before prefill was sent"
            case Hold(id_):
                assert id_ in self.open
            case Release(id_):
                self.open.remove(id_)
            case Relay():
                self.begun = True
            case FindRoute():
                assert not self.begun, "no retry after the first byte"
                assert not self.open, "a retry starts from nothing"
            case Finish():
                self.finished += 1


@settings(max_examples=300, deadline=None)
@given(data=st.data(), retries=st.integers(0, 3))
def test_every_way_ends_once_with_everything_given_back(data: st.DataObject, retries: int) -> None:
    world = World(retries)
    handoff, commands = start(may_resend=data.draw(st.booleans()))
    for _ in range(40):
        for command in commands:
            world.obey(command)
        if handoff.stage is Stage.DONE:
            break
        event = data.draw(_possible(handoff))
        if isinstance(event, Routed):
            event = world.reserve(event.route)
        handoff, commands = advance(handoff, event)
    assert handoff.stage is Stage.DONE
    assert not handoff.open
    assert not world.open
    assert world.finished == 1


def _possible(handoff: Handoff) -> st.SearchStrategy[Event]:
    kinds = [kind for stage, kind in TABLE if stage is handoff.stage]
    if len(handoff.open) == 1 and FirstToken in kinds:
        kinds.remove(FirstToken)  # there is one in a request
    return st.one_of([EVENTS[kind] for kind in (*kinds, ClientGone)])
