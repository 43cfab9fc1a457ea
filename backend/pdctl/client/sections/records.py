"""What happened: requests, latencies, events, and the operations log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from pdctl.client.errors import unreachable
from pdctl.client.transport import STREAM_TIMEOUT, TIMEOUT, Transport, clean, part
from pdctl.contract.history import AuditPage
from pdctl.contract.latency import SeriesPage
from pdctl.contract.resources import EventPage, HistogramPage, RequestPage, RequestView


class RecordSection(Transport):
    """Requests, histograms, events and the audit trail."""

    async def requests(
        self,
        limit: int = 50,
        before: str | None = None,
        *,
        path: str | None = None,
        outcome: str | None = None,
        instance: str | None = None,
        key: str | None = None,
        slowest: bool = False,
        **more: str | None,
    ) -> RequestPage:
        """Finished requests, newest (or slowest) first; `more`: model, pair, slo_missed, begins."""
        query = {
            **more,
            "limit": limit, "before": before, "path": path, "outcome": outcome,
            "instance": instance, "key": key, "slowest": str(slowest).lower(),
        }  # fmt: skip
        return await self._get("/api/v1/requests", RequestPage, query)

    async def request(self, id_: str) -> RequestView:
        """One request with its legs and its waterfall."""
        return await self._get(f"/api/v1/requests/{part(id_)}", RequestView)

    async def histograms(
        self,
        metric: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        window_s: int | Sequence[int | None] | None = 300,
        *,
        since: str | None = None,
        until: str | None = None,
    ) -> HistogramPage:
        """Latency distributions: every metric x by x window asked for; window None: since start.

        `since` and `until` ("24h" ago, ISO 8601, or a mark) ask for a time in the past instead.
        """
        windows = [window_s] if window_s is None or isinstance(window_s, int) else list(window_s)
        query = {
            "metric": _many(metric),
            "by": _many(by),
            "window": ["all" if one is None else str(one) for one in windows],
            "since": since, "until": until,
        }  # fmt: skip
        return await self._get("/api/v1/histograms", HistogramPage, query)

    async def latency_series(
        self, metric: Sequence[str], by: Sequence[str], window_s: int = 300
    ) -> SeriesPage:
        """Percentiles over time, of five minutes or of an hour."""
        query = {"metric": list(metric), "by": list(by), "window": str(window_s)}
        return await self._get("/api/v1/histograms/series", SeriesPage, query)

    async def events_page(
        self,
        after: int | None = None,
        limit: int = 200,
        *,
        before: int | None = None,
        about: str | None = None,
        topics: Sequence[str] = (),
    ) -> EventPage:
        """Stored facts after a position, oldest first; None: the newest ones.

        `about` is an instance or pool; `topics` are kinds, or their first words.
        """
        query = {
            "after": after, "limit": limit, "before": before, "about": about,
            "topics": ",".join(topics) or None,
        }  # fmt: skip
        return await self._get("/api/v1/events", EventPage, query)

    @asynccontextmanager
    async def events(
        self, position: str | None, topics: Sequence[str] = ()
    ) -> AsyncIterator[httpx2.Response]:
        """An open SSE response after `position`; `client.stream.watch` reads it."""
        headers = {"Accept": "text/event-stream"}
        if position is not None:
            headers["Last-Event-ID"] = position
        query = {"topics": ",".join(topics) or None}
        async with self._stream("/api/v1/events", query, headers, STREAM_TIMEOUT) as response:
            yield response

    async def audit(self, **query: Any) -> AuditPage:
        """The operations log: verb, actor, source, outcome, subject, text, after, before,
        limit."""
        return await self._get("/api/v1/audit", AuditPage, query)

    def export_audit(self, **query: Any) -> AsyncGenerator[str, None]:
        """Every entry that matches, as lines of JSON."""
        return self._lines("/api/v1/audit", query)

    def export_requests(self, **query: Any) -> AsyncGenerator[str, None]:
        """Every request that matches (path, outcome, instance, key, slowest), as lines of JSON."""
        return self._lines("/api/v1/requests", query)

    async def _lines(self, path: str, query: dict[str, Any]) -> AsyncGenerator[str, None]:
        query = {**query, "format": "jsonl"}
        async with self._stream(path, clean(query), {}, TIMEOUT) as response:
            try:
                async for line in response.aiter_lines():
                    yield line
            except httpx2.TransportError as error:
                raise unreachable(self.base_url, error) from error


def _many(value: str | Sequence[str] | None) -> list[str] | None:
    if value is None:
        return None
    return [value] if isinstance(value, str) else list(value)
