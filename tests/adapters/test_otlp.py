"""Spans as a collector receives them: a small one of this test's, decoding with the library."""

from __future__ import annotations

import asyncio
import builtins
import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pdctl.adapters.otlp import OtlpSink
from pdctl.domain.errors import OperatorError
from pdctl.domain.tracing import Span

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not here")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROOT = Span(
    "chat tiny", "server", TRACE, "00f067aa0ba902b7", "00f067aa0ba902b1", 1000.0, 1000.5,
    (("gen_ai.operation.name", "chat"), ("gen_ai.usage.input_tokens", 7),
     ("gen_ai.response.finish_reasons", ("stop",))), "it timed out",
)  # fmt: skip
LEG = Span("pd.prefill", "client", TRACE, "00f067aa0ba902b8", ROOT.id, 1000.1, 1000.2)


class Collector(ThreadingHTTPServer):
    """Keeps what was posted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[tuple[str, bytes]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.posted.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def sink(collector: Collector) -> Iterator[OtlpSink]:
    made = OtlpSink(collector.url, "demo", simulated=True)
    try:
        yield made
    finally:
        made.close()


def received(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(resource attributes, span by name)"""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    message.ParseFromString(body)
    (resource,) = message.resource_spans
    (scope,) = resource.scope_spans
    about = {one.key: one.value for one in resource.resource.attributes}
    return about, {span.name: span for span in scope.spans}


async def test_a_collector_gets_the_tree(sink: OtlpSink, collector: Collector) -> None:
    assert await sink.send([ROOT, LEG])
    ((path, body),) = collector.posted
    assert path == "/v1/traces"
    about, found = received(body)
    assert about["service.name"].string_value == "pdctl"
    assert about["service.namespace"].string_value == "demo"
    assert about["pd.simulated"].bool_value
    root, leg = found["chat tiny"], found["pd.prefill"]
    assert root.trace_id.hex() == leg.trace_id.hex() == TRACE
    assert (root.span_id.hex(), root.parent_span_id.hex()) == (ROOT.id, ROOT.parent)
    assert leg.parent_span_id.hex() == ROOT.id
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (1000 * 10**9, 10005 * 10**8)
    assert (root.kind, leg.kind) == (2, 3), "server and client"
    assert (root.status.code, root.status.message) == (2, "it timed out")
    told = {one.key: one.value for one in root.attributes}
    assert told["gen_ai.usage.input_tokens"].int_value == 7
    assert told["gen_ai.response.finish_reasons"].array_value.values[0].string_value == "stop"


async def test_a_collector_that_refuses_is_no_exception(
    sink: OtlpSink, collector: Collector
) -> None:
    collector.status = 400
    assert not await asyncio.wait_for(sink.send([ROOT]), 60)


def test_an_endpoint_may_name_the_path(collector: Collector) -> None:
    sink = OtlpSink(f"{collector.url}/v1/traces/", "demo")
    try:
        assert asyncio.run(sink.send([LEG]))
    finally:
        sink.close()
    assert collector.posted[0][0] == "/v1/traces"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for name in [one for one in sys.modules if one.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(OperatorError, match=r"pdctl\[otel\]"):
        OtlpSink("http://127.0.0.1:4318", "demo")
