"""When real traffic takes a pair out of rotation, and for how long: pure.

Law: a pair is blamed only for what speaks of the pair. A connection that is refused or breaks, a
shutdown and a full queue speak of one instance, a refused request of its client. Failures count in
a row, and only those of requests that came after the pair was last seen to work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pdctl.domain.handoff import Leg, RequestRecord
from pdctl.domain.instance import Pair
from pdctl.domain.pairing import OK, QUARANTINED
from pdctl.domain.retry import backoff_s

STRIKES = 3
"""Requests in a row that fail on a pair before it is quarantined."""
FIRST_PAUSE_S = 5.0
"""From the first quarantine to its probe; doubles until real traffic works on the pair again."""
FRESH_S = 30.0
"""How old the last handoff seen to work may grow before another success is noted."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one decode leg says about its pair."""

    prefill: str
    decode: str
    worked: bool
    why: str = ""


def evidence(record: RequestRecord) -> Iterator[Evidence]:
    """What a finished request says about the pairs it was handed over on; often nothing."""
    prefill = ""
    for leg in record.legs:
        if leg.kind == "prefill":
            prefill = leg.instance
        elif leg.kind == "decode":
            if _blames_pair(leg):
                yield Evidence(prefill, leg.instance, worked=False, why=leg.error)
            elif leg.status == 200 and not leg.error:
                yield Evidence(prefill, leg.instance, worked=True)


def weigh(pair: Pair, seen: Evidence, *, received_at: float, wall: float, now: float) -> Pair:
    """The pair after `seen`; the same object when that changes nothing.

    `received_at` and `wall` are wall seconds (of the request, and now), `now` is monotonic seconds.
    A pair that is out of rotation already is its probe's business.
    """
    if pair.state != OK:
        return pair
    if seen.worked:
        stale = pair.last_ok is None or wall - pair.last_ok >= FRESH_S
        if not (stale or pair.strikes or pair.quarantines):
            return pair
        return replace(pair, last_ok=wall, strikes=0, quarantines=0)
    if pair.last_ok is not None and received_at <= pair.last_ok:
        return pair
    if pair.strikes + 1 < STRIKES:
        return replace(pair, strikes=pair.strikes + 1)
    times = pair.quarantines + 1
    pause = backoff_s(times, f"{pair.prefill}>{pair.decode}", base_s=FIRST_PAUSE_S)
    return replace(
        pair, state=QUARANTINED, strikes=0, quarantines=times, retry_at=now + pause,
        message=f"{STRIKES} requests in a row failed on it; last: {seen.why}",
    )  # fmt: skip


def _blames_pair(leg: Leg) -> bool:
    if leg.failure == "status":
        return leg.status != 503  # vLLM's full queue
    return leg.failure == "timeout"
