"""Whether KV that was handed over really moved: pure, from the engines' own counters.

A decode engine that cannot pull computes the prompt itself and answers 200 all the same. What
gives it away are its counters of prompt tokens by source, so each request is judged by what they
did between the last scrape before its decode leg and the first one after its first token:

- computed less than half of the prompt: it was not recomputed. It moved if something was pulled;
  else it had been there already, if something was found in the cache.
- computed half of it or more, while pulled and cached together are less: it was recomputed.
- anything else (others computed as much in that time): unknown, and counted as unknown.

Law: a verdict needs evidence. No scrape in time, or a restart between two: unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pdctl.domain.handoff import Leg, Path, RequestRecord
from pdctl.domain.instance import EngineStats

SETTLE_S = 0.25
"""An engine counts a prompt a little after the client has its first token."""


class Kv(StrEnum):
    """What became of the KV of one handed-over request."""

    MOVED = "moved"
    """Decode pulled it."""
    CACHED = "cached"
    """Decode had the prompt in its own cache: nothing needed to move."""
    RECOMPUTED = "recomputed"
    """Decode computed what prefill had computed: a silent recompute."""
    UNKNOWN = "unknown"
    """The counters do not tell this request from others."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One engine's counters of prompt tokens at one moment (wall seconds)."""

    at: float
    computed: float
    cached: float
    pulled: float

    @classmethod
    def of(cls, stats: EngineStats) -> Reading:
        """What a scrape says."""
        return cls(
            stats.at,
            stats.prompt_tokens_local,
            stats.prompt_tokens_cached,
            stats.prompt_tokens_remote,
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """KV that was offered to a decode instance, and when it was needed (wall seconds)."""

    request: str
    prefill: str
    decode: str
    tokens: int
    sent: float
    first: float
    """When its first token was there; the end of an answer in one piece."""


@dataclass(frozen=True, slots=True)
class Stranded:
    """KV that prefill keeps until its lease ends, for nobody can pull it any more."""

    request: str
    prefill: str
    tokens: int | None
    since: float
    """Wall seconds."""
    why: str


@dataclass(slots=True)
class Counts:
    """Named counts that add up."""

    by: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, count: float = 1.0) -> None:
        """Count some."""
        self.by[name] = self.by.get(name, 0.0) + count

    def merge(self, other: Counts) -> None:
        """Add all that `other` counted."""
        for name, count in other.by.items():
            self.add(name, count)

    @property
    def total(self) -> int:
        """0 when nothing was counted."""
        return sum(count > 0 for count in self.by.values())


def offered(record: RequestRecord) -> Offer | None:
    """The KV that the answering leg of a request was offered; None when there was none."""
    if record.path is not Path.PD or len(record.legs) < 2 or not record.remote_tokens:
        return None
    prefill, decode = record.legs[-2:]
    if prefill.kind != "prefill" or decode.kind != "decode" or decode.status != 200:
        return None
    first = decode.first_byte_ms if record.stream else decode.done_ms
    if first is None:
        return None
    return Offer(
        record.id, prefill.instance, decode.instance, record.remote_tokens,
        record.received_at + decode.sent_ms / 1000, record.received_at + first / 1000,
    )  # fmt: skip


def _at(reading: Reading) -> float:
    return reading.at


def judged(offer: Offer, readings: Sequence[Reading]) -> Kv | None:
    """What became of `offer` by the decode engine's readings, oldest first; None: not yet."""
    end = bisect_left(readings, offer.first + SETTLE_S, key=_at)
    if end == len(readings):
        return None
    begin = bisect_right(readings, offer.sent, key=_at)
    if not begin:
        return Kv.UNKNOWN
    before, after = readings[begin - 1], readings[end]
    computed, pulled = after.computed - before.computed, after.pulled - before.pulled
    cached, half = after.cached - before.cached, offer.tokens / 2
    if min(computed, pulled, cached) < 0:
        return Kv.UNKNOWN
    if computed < half:
        return Kv.MOVED if pulled > 0 else Kv.CACHED if cached > 0 else Kv.UNKNOWN
    return Kv.RECOMPUTED if pulled + cached < half else Kv.UNKNOWN


def stranded(record: RequestRecord) -> list[Stranded]:
    """What prefill computed for a request and nobody pulled, leg by leg."""
    found = []
    for place, leg in enumerate(record.legs):
        if leg.kind != "prefill" or leg.error or leg.status != 200 or leg.headers_ms is None:
            continue
        following = record.legs[place + 1] if place + 1 < len(record.legs) else None
        if why := _never_pulled(following):
            since = record.received_at + leg.headers_ms / 1000
            found.append(Stranded(record.id, leg.instance, record.remote_tokens, since, why))
    return found


def _never_pulled(leg: Leg | None) -> str:
    if leg is None or leg.kind == "prefill":
        return "decode was never asked"
    if leg.kind == "decode" and leg.failure == "connect":
        return f"{leg.instance} could not be reached"
    return ""
