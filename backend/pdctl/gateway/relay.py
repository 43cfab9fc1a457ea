"""Writes answers to the client: streams as they come, whole bodies, and errors of our own.

A ConnectionResetError out of here is the client's connection; an engine's failure is an event.
"""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import HttpVersion11, web

from pdctl.domain.topology import RouterSpec
from pdctl.gateway.exchange import Exchange
from pdctl.gateway.headers import SERVER, to_client
from pdctl.gateway.legs import Answer
from pdctl.gateway.piper import Piper
from pdctl.gateway.sse import Scanner, before_done
from pdctl.gateway.trace import Trace
from pdctl.gateway.upstream import LegError
from pdctl.gateway.watch import Watch
from pdctl.routing import openai
from pdctl.routing.signals import ErrorRelayed, Event, Failed, Failure, Finished, FirstToken
from pdctl.tasks import spawn

LINGER_S = 0.5
"""How long an answer may go on after its last event before its connection is given up."""
OUR_LIMITS = RouterSpec()
"""For answers of our own, which need no instance and hold none."""


class _Stream(web.StreamResponse):
    """A stream whose first bytes are at hand: they leave in one packet with the headers."""

    _send_headers_immediately = False


class Relay:
    """The client's side of one request."""

    def __init__(self, exchange: Exchange, trace: Trace) -> None:
        self._exchange, self._trace = exchange, trace
        self._watch: Watch | None = None
        self.response: web.StreamResponse | None = None
        """What is being, or was, written."""
        self.gave_up = ""
        """Why the client was left, if it was."""

    async def answer(self, answer: Answer, limits: RouterSpec) -> Event:
        """Give the client an answer that has begun; after a FirstToken, what follows of it."""
        if answer.whole:
            await self.body(answer, limits)
            return Finished(answer.response.status)
        if self.response is None:
            await self._begin(answer, limits)
        try:
            if answer.scanner is None:
                event = await self._pipe(answer, limits)
            else:
                event = await self._events(answer, answer.scanner, limits)
        except LegError as error:
            answer.leg.error = error.failed.why
            event = error.failed
        if not isinstance(event, FirstToken):
            self._ended(answer, event)
        return event

    async def body(self, answer: Answer, limits: RouterSpec) -> None:
        """Give the client a whole body, unchanged."""
        await self._write(
            web.Response(
                status=answer.response.status,
                reason=answer.response.reason,
                headers=to_client(answer.response.headers, self._exchange.id),
                body=answer.body,
            ),
            limits,
        )

    async def refuse(self, status: int, message: str, retry_after_s: int | None) -> None:
        """Give the client an error of our own."""
        endpoint = self._exchange.facts.endpoint
        response = error_response(status, message, id_=self._exchange.id, endpoint=endpoint)
        if retry_after_s is not None:
            response.headers["Retry-After"] = str(retry_after_s)
        await self._write(response)

    async def break_off(self, status: int, message: str) -> None:
        """End an answer that had begun: by an error event, or by cutting the connection."""
        response = self.response
        if response is None or response.content_type != "text/event-stream":
            if self._exchange.request.transport is not None:
                self._exchange.request.transport.close()
            return
        name, data = openai.stream_error(status, message, self._exchange.facts.endpoint)
        head = f"event: {name}\n".encode() if name else b""
        await self._end(response, head + b"data: " + orjson.dumps(data) + b"\n\n")

    def close(self) -> None:
        """Nothing more will be written."""
        if self._watch is not None:
            self._watch.stop()

    async def _begin(self, answer: Answer, limits: RouterSpec) -> None:
        make = web.StreamResponse if answer.scanner is None else _Stream
        response = make(
            status=answer.response.status, reason=answer.response.reason,
            headers=to_client(answer.response.headers, self._exchange.id),
        )  # fmt: skip
        if (length := answer.response.content_length) is not None and not answer.scanner:
            response.content_length = length
        if answer.scanner is not None and self._exchange.request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        self.response = response
        self._watch = Watch(limits.slow_client_timeout_s, self._leave)
        await response.prepare(self._exchange.request)

    async def _events(self, answer: Answer, scanner: Scanner, limits: RouterSpec) -> Event:
        """Whole events as they come; what they say is noted, their bytes are not touched."""
        reader, trace, response = answer.reader, self._trace, self.response
        assert response is not None  # noqa: S101 - it has begun
        ready, tokens = answer.body, answer.tokens
        answer.body, answer.tokens = b"", 0
        piper = Piper(scanner, trace, self._exchange.request, chunked=response.chunked)
        more = True
        while more and not scanner.done:
            if ready:
                await self._send(response, ready)
            if tokens:
                trace.wrote_tokens(tokens)
                if not answer.flows:
                    answer.flow(limits.stall_timeout_s)
                    return FirstToken()
            more = await reader.flow(piper.take if answer.flows else piper.keep)
            ready, tokens = piper.kept if more else scanner.finish()
        return await self._last_events(response, scanner, ready, tokens)

    async def _last_events(
        self, response: web.StreamResponse, scanner: Scanner, ready: bytes, tokens: int
    ) -> Event:
        if scanner.done:
            # The last event and the end of the answer leave in one packet. vLLM says [DONE] after
            # an error, too: a stream that died is not told as done.
            await self._end(response, before_done(ready) if scanner.error else ready)
        elif ready:
            await self._send(response, ready)
        if tokens:
            self._trace.wrote_tokens(tokens)
        if scanner.error is not None or scanner.finish_reason == "abort":
            await self._end(response)
            return ErrorRelayed(scanner.error[1] if scanner.error else "the engine aborted it")
        if not scanner.closed:
            return Failed(Failure.DIED, "the stream ended without its last event")
        await self._end(response)
        return Finished(response.status)

    async def _pipe(self, answer: Answer, limits: RouterSpec) -> Event:
        """Bytes as they come, unread: endpoints that PD does not know."""
        response = self.response
        assert response is not None  # noqa: S101 - it has begun
        while data := await answer.reader.read():
            if answer.leg.first_byte is None:
                answer.leg.first_byte = self._trace.monotonic()
                answer.flow(limits.stall_timeout_s)
            await self._send(response, data)
        await self._end(response)
        return Finished(response.status)

    def _ended(self, answer: Answer, event: Event) -> None:
        """Note what the answer said, and see to its connection."""
        leg, scanner = answer.leg, answer.scanner
        leg.done = self._trace.monotonic()
        if scanner is not None:
            self._trace.finish_reason = scanner.finish_reason
            self._trace.usage(scanner.usage())
            leg.engine = scanner.metrics()
            if scanner.error is not None:
                leg.error = scanner.error[1][:500]
        if not isinstance(event, Finished | ErrorRelayed):
            answer.reader.close()
        elif answer.reader.ended:
            answer.reader.close(reusable=True)
        else:
            # The client has everything: neither it nor the instance's place waits for this.
            spawn(answer.reader.put_back(LINGER_S), name=f"end of {self._exchange.id}")

    async def _write(self, response: web.Response, limits: RouterSpec = OUR_LIMITS) -> None:
        self.response = response
        self._watch = Watch(limits.slow_client_timeout_s, self._leave)
        await response.prepare(self._exchange.request)
        await self._end(response)

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        watch = self._watch
        assert watch is not None  # noqa: S101 - made when the answer began
        watch.begin()
        await response.write(data)
        watch.end()

    async def _end(self, response: web.StreamResponse, data: bytes = b"") -> None:
        watch = self._watch
        assert watch is not None  # noqa: S101 - made when the answer began
        watch.begin()
        await response.write_eof(data)
        watch.stop()
        if self._trace.ended is None:
            self._trace.ended = self._trace.monotonic()

    def _leave(self, waited_s: float) -> None:
        """The client takes nothing: its answer must not hold a place for ever."""
        self.gave_up = f"client took nothing for {waited_s:g} s"
        if self._exchange.request.transport is not None:
            self._exchange.request.transport.abort()


def error_response(
    status: int, message: str, param: str | None = None, *, id_: str, endpoint: str = ""
) -> web.Response:
    """An error in the envelope of `endpoint`."""
    body = openai.error_body(status, message, param, endpoint)
    return json_response(body, id_=id_, status=status)


def json_response(body: dict[str, Any], *, id_: str, status: int = 200) -> web.Response:
    """JSON of our own."""
    return web.Response(
        status=status,
        body=orjson.dumps(body),
        content_type="application/json",
        headers={"X-Request-Id": id_, "Server": SERVER},
    )
