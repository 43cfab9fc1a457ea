"""Counts: everything opened is given back once."""

from __future__ import annotations

import pytest
from tests.routing.boards import board, table

from pdctl.domain.handoff import Path
from pdctl.gateway.ledger import Ledger
from pdctl.routing.facts import RequestFacts
from pdctl.routing.router import Route, decide


def route() -> Route:
    found = decide(RequestFacts("/v1/completions"), board("p0", "d0"), {}, None)  # type: ignore[arg-type]
    assert isinstance(found, Route)
    return found


def test_a_handoff_opens_and_closes_its_legs() -> None:
    ledger = Ledger()
    reservation = ledger.reserve(route(), 100)
    assert ledger.inflight() == {"p0": 1, "d0": 1}
    assert ledger.loads["p0"].tokens == 100
    reservation.hold("p0", at=7.0)
    assert ledger.held() == {"p0": (1, 7.0)}
    assert ledger.loads["p0"].legs == 0
    assert ledger.inflight() == {"p0": 1, "d0": 1}
    assert reservation.release("p0")
    assert reservation.release("d0")
    assert ledger.inflight() == {}
    assert ledger.held() == {}


def test_a_request_is_counted_on_its_path_until_all_is_given_back() -> None:
    ledger = Ledger()
    one, two = ledger.reserve(route(), 1), ledger.reserve(route(), 1)
    assert ledger.paths == {Path.PD: 2}
    one.hold("p0")
    one.release("p0")
    one.goes_by(Path.AGGREGATED)
    assert ledger.paths == {Path.PD: 1, Path.AGGREGATED: 1}
    one.release("d0")
    two.release("d0")
    assert ledger.paths == {Path.PD: 1}
    two.release("p0")
    assert ledger.paths == {}


def test_giving_back_twice_is_loud() -> None:
    reservation = Ledger().reserve(route(), 1)
    reservation.release("p0")
    with pytest.raises(KeyError):
        reservation.release("p0")


def test_idle_strangers_are_forgotten_busy_ones_are_not() -> None:
    ledger = Ledger()
    reservation = ledger.reserve(route(), 1)
    reservation.hold("p0")
    ledger.renew(table())
    assert set(ledger.loads) == {"p0", "d0"}
    for id_ in reservation.left:
        reservation.release(id_)
    ledger.renew(table("d0"))
    assert set(ledger.loads) == {"d0"}
