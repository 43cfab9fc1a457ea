"""The story of one request while it happens; `record` freezes it for the control plane.

All offsets are taken from one monotonic clock and counted in milliseconds after the arrival.
"""

from __future__ import annotations

from collections.abc import Callable

from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.histogram import bucket
from pdctl.routing.answers import Usage
from pdctl.routing.facts import RequestFacts
from pdctl.routing.machine import Handoff

Monotonic = Callable[[], float]


class LegTrace:
    """One attempt at one instance."""

    __slots__ = (
        "done", "engine", "error", "failure", "first_byte", "headers", "instance", "kind", "note",
        "sent", "status", "why",
    )  # fmt: skip

    def __init__(self, kind: str, instance: str, why: str, sent: float) -> None:
        self.kind, self.instance, self.why, self.sent = kind, instance, why, sent
        self.headers: float | None = None
        self.first_byte: float | None = None
        self.done: float | None = None
        self.status: int | None = None
        self.error = self.failure = self.note = ""
        self.engine: tuple[tuple[str, float], ...] = ()

    def frozen(self, start: float) -> Leg:
        """The leg with its offsets."""
        return Leg(
            kind=self.kind,
            instance=self.instance,
            why=self.why,
            sent_ms=(self.sent - start) * 1000,
            headers_ms=_offset(self.headers, start),
            first_byte_ms=_offset(self.first_byte, start),
            done_ms=_offset(self.done, start),
            status=self.status,
            error=self.error,
            failure=self.failure,
            engine=self.engine,
            note=self.note,
        )


class Trace:
    """Times and counts of one request."""

    __slots__ = (
        "_first", "_itl", "_last", "_token_events", "cached", "completion", "context", "ended",
        "facts",
        "finish_reason", "id", "key", "legs", "mode", "monotonic", "params_age_ms", "prompt",
        "queued_ms", "received_at", "refused", "remote_tokens", "start", "stream",
    )  # fmt: skip

    def __init__(self, id_: str, facts: RequestFacts, now: float, monotonic: Monotonic) -> None:
        self.id, self.facts, self.received_at = id_, facts, now
        self.monotonic = monotonic
        self.start = monotonic()
        self.mode = ""
        self.context = ""
        """Its trace context (`domain.tracing`), where spans are collected."""
        self.key = ""
        """Name of the client's API key."""
        self.stream = facts.stream
        self.legs: list[LegTrace] = []
        self.queued_ms: float | None = None
        self.params_age_ms: float | None = None
        self.remote_tokens: int | None = None
        self.prompt: int | None = None
        self.cached: int | None = None
        self.completion: int | None = None
        self.finish_reason = ""
        self.refused = ""
        """Why it was given no route, in the word under which that is counted."""
        self.ended: float | None = None
        """When the last byte of the answer was written."""
        self._first: float | None = None
        self._last: float | None = None
        self._token_events = 0
        self._itl: dict[int, int] = {}

    def leg(self, kind: str, instance: str, why: str) -> LegTrace:
        """Begin a leg now."""
        leg = LegTrace(kind, instance, why, self.monotonic())
        self.legs.append(leg)
        return leg

    def wrote_tokens(self, events: int) -> None:
        """`events` token-bearing events were just written to the client, together."""
        now = self.monotonic()
        if self._last is None:
            self._first = now
        else:
            index = bucket((now - self._last) * 1000)
            self._itl[index] = self._itl.get(index, 0) + 1
        if events > 1:
            self._itl[0] = self._itl.get(0, 0) + events - 1
        self._last = now
        self._token_events += events

    def usage(self, usage: Usage) -> None:
        """Take what an engine counted; a later leg's numbers win."""
        self.prompt = self.prompt if usage.prompt is None else usage.prompt
        self.cached = self.cached if usage.cached is None else usage.cached
        self.completion = self.completion if usage.completion is None else usage.completion

    def record(self, handoff: Handoff, outcome: Outcome, status: int, error: str) -> RequestRecord:
        """The finished request."""
        route, path = handoff.route, handoff.path
        ended = self.monotonic() if self.ended is None else self.ended
        counted = self.completion is None and self._token_events > 0
        completion = self._token_events if counted else self.completion
        return RequestRecord(
            id=self.id,
            received_at=self.received_at,
            endpoint=self.facts.endpoint,
            model=self.facts.model,
            stream=self.stream,
            mode=self.mode,
            path=path,
            path_reason=self.refused if route is None else route.path_reason,
            outcome=outcome,
            status=status,
            error=error,
            key=self.key,
            queued_ms=self.queued_ms,
            params_age_ms=self.params_age_ms if path is Path.PD else None,
            ttft_ms=_offset(self._first, self.start),
            tpot_ms=self._tpot(completion),
            e2e_ms=(ended - self.start) * 1000,
            prompt_tokens=self.prompt,
            cached_tokens=self.cached,
            completion_tokens=completion,
            completion_derived=counted,
            finish_reason=self.finish_reason,
            retries=handoff.retries,
            remote_tokens=self.remote_tokens if path is Path.PD else None,
            legs=tuple(leg.frozen(self.start) for leg in self.legs),
            trace=self.context,
            itl=tuple(sorted(self._itl.items())),
        )

    def _tpot(self, completion: int | None) -> float | None:
        if self._first is None or self._last is None or completion is None or completion < 2:
            return None
        if self.facts.sequences > 1:
            return None
        return (self._last - self._first) * 1000 / (completion - 1)


def _offset(at: float | None, start: float) -> float | None:
    return None if at is None else (at - start) * 1000
