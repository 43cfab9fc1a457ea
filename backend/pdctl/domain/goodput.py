"""Which requests were served within an objective, and why the others were not: pure.

Goodput is the rate of requests that meet all bounds of an objective, and attainment their share
(DistServe, Zhong et al., OSDI 2024; `vllm bench serve --goodput` counts the same way).

Law: nothing is counted that is not known. A request is judged by what was measured of it:
- the engine or the router failed it, or it found no room: missed, however quick that was;
- refused for what it says itself (4xx): not a request that could be served, so not counted;
- its client left: missed when a bound was broken by then, else not judged (nobody knows the end);
- a bound whose value is unknown and cannot be inferred (the first token of an answer that is not
  streamed): not judged, and counted as such, unless another bound was missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pdctl.domain.handoff import Leg, Outcome, RequestRecord
from pdctl.domain.histogram import bounds
from pdctl.domain.phases import final_legs, phases
from pdctl.domain.topology import SloSpec


class Cause(StrEnum):
    """What an objective was missed by."""

    QUEUE = "queue"
    """The first token came late, mostly by waiting; or there was no room at all."""
    PREFILL = "prefill"
    """The first token came late, mostly by computing the prompt."""
    TRANSFER = "transfer"
    """The first token came late, mostly by decode's admission and the pull of the KV."""
    DECODE = "decode"
    """Tokens came slowly all along."""
    STALL = "stall"
    """Tokens came well but for a few long gaps."""
    ERROR = "error"
    """It failed."""


class Result(StrEnum):
    """One request against one objective."""

    MET = "met"
    MISSED = "missed"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one objective at one request."""

    result: Result
    cause: Cause | None = None
    """Set when it was missed."""


@dataclass(slots=True)
class Tally:
    """Counts of verdicts; like a histogram it is added up, never averaged."""

    met: int = 0
    unjudged: int = 0
    missed: dict[Cause, int] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        """Count one."""
        if verdict.cause is not None:
            self.missed[verdict.cause] = self.missed.get(verdict.cause, 0) + 1
        elif verdict.result is Result.MET:
            self.met += 1
        else:
            self.unjudged += 1

    def merge(self, other: Tally) -> None:
        """Add all that `other` counted."""
        self.met += other.met
        self.unjudged += other.unjudged
        for cause, count in other.missed.items():
            self.missed[cause] = self.missed.get(cause, 0) + count

    @property
    def judged(self) -> int:
        """Requests of which it is known whether they met it."""
        return self.met + sum(self.missed.values())

    @property
    def total(self) -> int:
        """All that were counted."""
        return self.judged + self.unjudged

    @property
    def share(self) -> float | None:
        """Attainment, 0..1: met of those judged; None when none was."""
        return self.met / self.judged if self.judged else None


_MET, _UNJUDGED = Verdict(Result.MET), Verdict(Result.UNJUDGED)
_MISSED = {cause: Verdict(Result.MISSED, cause) for cause in Cause}
_FAILED = {
    Outcome.OVERLOADED: Cause.QUEUE,
    Outcome.NO_INSTANCE: Cause.ERROR,
    Outcome.UPSTREAM_ERROR: Cause.ERROR,
    Outcome.TIMEOUT: Cause.ERROR,
    Outcome.TRUNCATED: Cause.ERROR,
}


def verdict(
    record: RequestRecord, slo: SloSpec, legs: Sequence[Leg] | None = None
) -> Verdict | None:
    """`record` against `slo`; None when it does not count. `legs` are its final ones."""
    if record.outcome is Outcome.REJECTED:
        return None
    if (failed := _FAILED.get(record.outcome)) is not None:
        return _MISSED[failed]
    known = True
    for met in _bounds(record, slo):
        if met is False:
            return _MISSED[_cause(record, slo, legs)]
        known = known and met is not None
    if record.outcome is Outcome.CLIENT_GONE:
        return _MISSED[_late(record, legs)] if _left_late(record, slo) else _UNJUDGED
    return _MET if known else _UNJUDGED


def _bounds(record: RequestRecord, slo: SloSpec) -> Iterator[bool | None]:
    """For each bound whether it was kept; None: unknown."""
    if slo.ttft_ms is not None:
        yield _within(record.ttft_ms, record.e2e_ms, slo.ttft_ms)
    if slo.tpot_ms is not None and record.completion_tokens != 1:
        yield _within(record.tpot_ms, _slowest(record), slo.tpot_ms)
    if slo.itl_p99_ms is not None and record.completion_tokens != 1:
        yield _within(tail_gap(record), record.e2e_ms, slo.itl_p99_ms)


def _within(value: float | None, most: float | None, bound: float) -> bool | None:
    """Whether a value keeps to its bound; `most` is what it cannot exceed, where it is unknown."""
    if value is not None:
        return value <= bound
    return True if most is not None and most <= bound else None


def _slowest(record: RequestRecord) -> float | None:
    """The most that a token can have taken on average."""
    tokens = record.completion_tokens
    if record.e2e_ms is None or tokens is None or tokens < 2 or record.completion_derived:
        return None
    return record.e2e_ms / (tokens - 1)


def tail_gap(record: RequestRecord) -> float | None:
    """The 99th percentile of the request's own gaps (nearest rank), ms; None without any gap."""
    left = sum(count for _, count in record.itl)
    if not left:
        return None
    beyond = left - max(1, -(-left * 99 // 100))  # those above the nearest rank
    for index, count in reversed(record.itl):
        if count > beyond:
            low, high = bounds(index)
            return (low * high) ** 0.5 if low else high
        beyond -= count
    return None


def _cause(record: RequestRecord, slo: SloSpec, legs: Sequence[Leg] | None) -> Cause:
    """The first token is judged first: whoever waits for it sees nothing else."""
    if slo.ttft_ms is not None and record.ttft_ms is not None and record.ttft_ms > slo.ttft_ms:
        return _late(record, legs)
    if slo.tpot_ms is not None and record.tpot_ms is not None and record.tpot_ms > slo.tpot_ms:
        return Cause.STALL if _without_longest(record, slo.tpot_ms) else Cause.DECODE
    return Cause.STALL


def _late(record: RequestRecord, legs: Sequence[Leg] | None) -> Cause:
    """The longest phase before the first token."""
    where = phases(record, final_legs(record) if legs is None else legs)
    known = {
        Cause.PREFILL: where.prefill or 0.0,
        Cause.TRANSFER: where.transfer or 0.0,
        Cause.QUEUE: where.queue or 0.0,
    }
    return max(known, key=lambda cause: known[cause])


def _left_late(record: RequestRecord, slo: SloSpec) -> bool:
    """The client had waited for its first token beyond the bound when it left."""
    if slo.ttft_ms is None or record.ttft_ms is not None:
        return False
    return record.e2e_ms is not None and record.e2e_ms > slo.ttft_ms


def _without_longest(record: RequestRecord, bound: float) -> bool:
    """Whether the tokens kept to `bound` on average but for the longest hundredth of the gaps."""
    gaps = sum(count for _, count in record.itl)
    if record.tpot_ms is None or gaps < 2:
        return False
    spare, total = max(1, gaps // 100), 0.0
    for index, count in reversed(record.itl):
        low, high = bounds(index)
        skipped = min(spare, count)
        spare -= skipped
        total += (count - skipped) * (high if not low else (low * high) ** 0.5)
    return total / (gaps - max(1, gaps // 100)) <= bound
