"""Spans to an OpenTelemetry collector over OTLP/HTTP (the extra `otel`; control.tracing.Sink)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pdctl import __version__
from pdctl.domain.errors import OperatorError
from pdctl.domain.tracing import Span

TRACES = "/v1/traces"
TIMEOUT_S = 10.0


class OtlpSink:
    """The library's exporter, given spans that are long finished. Headers, certificates and
    compression are its own environment variables (OTEL_EXPORTER_OTLP_*)."""

    def __init__(self, endpoint: str, fleet: str, simulated: bool = False) -> None:
        """OperatorError when the extra is not installed."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError as error:
            raise OperatorError(
                "no_otel",
                "PDCTL_OTLP_ENDPOINT is set, and OpenTelemetry is not installed.",
                "Run pip install 'pdctl[otel]', or unset it.",
            ) from error
        url = endpoint.rstrip("/")
        url = url if url.endswith(TRACES) else url + TRACES
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_S)
        self._resource = Resource.create({
            "service.name": "pdctl", "service.version": __version__, "service.namespace": fleet,
            "pd.simulated": simulated,
        })  # fmt: skip
        self._scope = InstrumentationScope("pdctl", __version__)

    async def send(self, batch: Sequence[Span]) -> bool:
        """Whether the collector took them."""
        return await asyncio.to_thread(self._send, batch)

    def close(self) -> None:
        """Let go of its connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _send(self, batch: Sequence[Span]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        found = [self._readable(span) for span in batch]
        return self._exporter.export(found) is SpanExportResult.SUCCESS

    def _readable(self, span: Span) -> Any:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(id_: str, *, remote: bool) -> SpanContext:
            flags = TraceFlags(TraceFlags.SAMPLED)
            return SpanContext(int(span.trace, 16), int(id_, 16), is_remote=remote,
                               trace_flags=flags)  # fmt: skip

        return ReadableSpan(
            name=span.name,
            context=context(span.id, remote=False),
            parent=context(span.parent, remote=span.kind == "server") if span.parent else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=SpanKind[span.kind.upper()],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=int(span.start * 1e9),
            end_time=int(max(span.start, span.end) * 1e9),
            instrumentation_scope=self._scope,
        )
