"""What only grows: counts of finished requests since this control plane began, for the exposition.

Law: cardinality is bounded whatever clients and fleets do; what no longer fits is counted as
"other". No text of a client's is a label.
"""

from __future__ import annotations

from collections import Counter

from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from pdctl.domain.histogram import Histogram

OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
}
"""Endpoints that generate, and what OpenTelemetry calls that (gen_ai.operation.name)."""
OTHER = "other"
MOST_KEYS = 200
MOST_INSTANCES = 1000


class Tally:
    """One writer: the request log."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        """Requests served whole although the mode is PD, by reason."""
        self.refused: Counter[str] = Counter()
        """Requests that were given no route, by the reason where it has a word."""
        self.keys: Counter[tuple[str, str]] = Counter()
        """Requests by (API key's name, outcome); without a key they are not counted here."""
        self.legs: Counter[tuple[str, str, str]] = Counter()
        """Attempts at an instance by (instance, kind, result)."""
        self.tokens: Counter[str] = Counter()
        """prompt, cached (of the prompt), remote (of the prompt, offered to decode), completion."""
        self.retries = 0
        self.took: dict[tuple[str, str], Histogram] = {}
        """Milliseconds of generations by (operation, outcome unless it was ok)."""
        self.first: dict[str, Histogram] = {}
        """Milliseconds to the first token by operation."""
        self.pace: dict[str, Histogram] = {}
        """Milliseconds per token after the first by operation."""
        self._names: dict[str, set[str]] = {"key": set(), "instance": set()}

    def add(self, record: RequestRecord) -> None:
        """Count a finished request."""
        self.retries += record.retries
        if record.path is Path.AGGREGATED:
            self.reasons[record.path_reason] += 1
        if record.path is Path.NONE and record.path_reason:
            self.refused[record.path_reason] += 1
        if record.key:
            self.keys[self._bounded("key", record.key, MOST_KEYS), record.outcome.value] += 1
        for leg in record.legs:
            name = self._bounded("instance", leg.instance, MOST_INSTANCES)
            self.legs[name, leg.kind, result(leg)] += 1
        self.tokens["prompt"] += record.prompt_tokens or 0
        self.tokens["cached"] += record.cached_tokens or 0
        self.tokens["remote"] += record.remote_tokens or 0
        self.tokens["completion"] += record.completion_tokens or 0
        if operation := OPERATIONS.get(record.endpoint):
            self._time(operation, record)

    def _time(self, operation: str, record: RequestRecord) -> None:
        error = "" if record.outcome is Outcome.OK else record.outcome.value
        if record.e2e_ms is not None:
            self.took.setdefault((operation, error), Histogram()).add(record.e2e_ms)
        if record.ttft_ms is not None:
            self.first.setdefault(operation, Histogram()).add(record.ttft_ms)
        if record.tpot_ms is not None:
            self.pace.setdefault(operation, Histogram()).add(record.tpot_ms)

    def _bounded(self, kind: str, name: str, most: int) -> str:
        known = self._names[kind]
        if name in known or len(known) < most:
            known.add(name)
            return name
        return OTHER


def result(leg: Leg) -> str:
    """How an attempt ended, in a word of a fixed list (`Leg.failure`), "ok" or "broken"."""
    return leg.failure or ("broken" if leg.error else "ok")
