"""Sends the legs of one request and says what became of them, in the machine's words.

A leg ends as an event; what the next command needs of it (the engine's rejection, or the answer
that has begun) stays here. Nothing has been written to the client while a leg is still judged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import orjson
from multidict import CIMultiDict

from pdctl import plugins
from pdctl.connectors import Connector
from pdctl.domain.handoff import Suspect
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.tracing import begin, leg_parent
from pdctl.gateway import bodies
from pdctl.gateway.exchange import Exchange, Services
from pdctl.gateway.headers import to_prefill
from pdctl.gateway.sse import Scanner
from pdctl.gateway.trace import LegTrace, Trace
from pdctl.gateway.upstream import Call, LegError, Parcel, Reader
from pdctl.gateway.wire import Reply
from pdctl.routing.answers import Usage, engine_metrics, error_of, finish_of, usage_of
from pdctl.routing.signals import (
    Event,
    Failed,
    Failure,
    ParamsMissing,
    PrefillReplied,
    Rejected,
    SingleUse,
    Started,
)
from pdctl.tasks import spawn

TRACEPARENT = "traceparent"
HOLD_BACK = 64 * 1024
"""Bytes of a stream without a token after which they are passed on all the same."""
_COUNTED = (Failure.CONNECT, Failure.TIMEOUT, Failure.DIED, Failure.STATUS)
_SUSPICIOUS = (Failure.CONNECT, Failure.DIED)
_STRANDED = "; its KV stays on prefill until the lease ends"
_QUEUE_TIME = "queue_time_ms"
"""vLLM counts the wait for KV as queue time."""
_RELEASE_MODEL = "pdctl-releases-kv"


@dataclass(slots=True)
class Answer:
    """An engine's answer: what was read of it, and the rest still to come."""

    target: Target
    leg: LegTrace
    response: Reply
    reader: Reader
    body: bytes = b""
    """The whole body, or the first events of a stream."""
    tokens: int = 0
    """Token-bearing events in `body`."""
    scanner: Scanner | None = None
    """Set for streams of the PD endpoints."""
    whole: bool = False
    """`body` is all there is."""
    flows: bool = False
    """Its first token is there."""

    def flow(self, stall_s: float) -> None:
        """From its first token on, gaps are limited by `stall_s`."""
        self.flows = True
        self.reader.flowing(stall_s)


class Legs:
    """The legs of one request."""

    def __init__(self, services: Services, exchange: Exchange, trace: Trace) -> None:
        self._services, self._exchange, self._trace = services, exchange, trace
        self.answer: Answer | None = None
        """The answer that a Rejected or Started speaks of."""
        self._unsent: tuple[Parcel, Target, RoutingTable] | None = None

    async def prefill(self, target: Target, why: str, table: RoutingTable) -> Event:
        """The prefill leg, up to its params."""
        body = connector(table.connector).prefill_body(self._body(), self._exchange.facts.endpoint)
        leg = self._trace.leg("prefill", target.id, why)
        opened = await self._open(leg, target, table, Parcel(bodies.write(body)))
        if not isinstance(opened, Answer):
            return opened
        leg.done = self._trace.monotonic()
        reply = _loads(opened.body)
        leg.engine = engine_metrics(reply)
        usage = usage_of(reply)
        self._trace.usage(Usage(usage.prompt, None, usage.cached))
        if finish_of(reply) == "abort":
            return self._fail(leg, target, Failed(Failure.ABORTED, "prefill was aborted"))
        params = connector(table.connector).read_params(reply)
        if isinstance(params, str):
            leg.error = params
            return ParamsMissing(params)
        tokens = params.get("remote_num_tokens")
        self._trace.remote_tokens = tokens if isinstance(tokens, int) else None
        age = self._trace.monotonic() - (leg.headers or leg.done)
        return PrefillReplied(SingleUse(params), age)

    async def decode(
        self, target: Target, why: str, table: RoutingTable, params: SingleUse, within_s: float
    ) -> Event:
        """The decode leg, up to the first byte for the client."""
        body = connector(table.connector).decode_body(self._body(), params.take())
        parcel = Parcel(bodies.write(body))
        self._unsent = (parcel, target, table)
        leg = self._trace.leg("decode", target.id, why)
        self._trace.params_age_ms = self._params_age(leg)
        event = await self._first(leg, target, table, parcel, min(within_s, _connect_s(table)))
        self._unsent = None
        if isinstance(event, Failed) and event.how is Failure.CONNECT:
            leg.error += _STRANDED
            if self._trace.monotonic() - leg.sent >= within_s:
                return Failed(Failure.STALE, event.why)
        return event

    async def whole(self, target: Target, why: str, table: RoutingTable) -> Event:
        """The client's body as it came, up to the first byte for the client."""
        parcel = Parcel(self._exchange.raw) if self._exchange.raw else None
        leg = self._trace.leg("whole", target.id, why)
        return await self._first(leg, target, table, parcel, _connect_s(table))

    def drop(self, why: str) -> None:
        """The request is over early: close what is open; KV that decode never heard of is freed."""
        if self.answer is not None:
            self.answer.reader.close()
        if self._unsent is not None and not self._unsent[0].sent:
            spawn(self._release_kv(), name=f"release KV of {self._exchange.id}")
        for leg in self._trace.legs:
            if leg.done is None:
                leg.done = self._trace.monotonic()
                leg.error = leg.error or why

    def note_pull(self, lease_s: float, *, first: bool) -> None:
        """Name a KV pull that stalled. NIXL's first pull of a pair does that at times: the pull
        ends, with the right KV, when prefill's lease does (seen with vLLM 0.32 on CPU).
        """
        leg = self._trace.legs[-1]
        waited = dict(leg.engine).get(_QUEUE_TIME, 0.0) / 1000
        if leg.first_byte is not None:
            waited = self._trace.monotonic() - leg.sent
        if waited > lease_s:
            leg.note = (
                f"KV pull stalled until the lease ended: {waited:.1f} s to the first token, "
                f"lease {lease_s:g} s{'; first pull of this pair' if first else ''}"
            )

    def _body(self) -> Mapping[str, object]:
        assert self._exchange.body is not None  # noqa: S101 - PD routes need a parsed body
        return self._exchange.body

    def _params_age(self, decode: LegTrace) -> float | None:
        prefill = self._trace.legs[-2]
        return None if prefill.headers is None else (decode.sent - prefill.headers) * 1000

    async def _first(
        self,
        leg: LegTrace,
        target: Target,
        table: RoutingTable,
        parcel: Parcel | None,
        connect_s: float,
    ) -> Event:
        opened = await self._open(leg, target, table, parcel, connect_s)
        if not isinstance(opened, Answer):
            return opened
        self.answer = opened
        if opened.scanner is not None:
            return await self._first_events(opened, table)
        if opened.whole and self._exchange.body is not None:
            return self._judge_body(opened)
        return Started()

    async def _open(
        self,
        leg: LegTrace,
        target: Target,
        table: RoutingTable,
        parcel: Parcel | None,
        connect_s: float | None = None,
    ) -> Answer | Rejected | Failed:
        """Send and read as far as needed to judge the status."""
        limits, exchange = table.limits, self._exchange
        headers = exchange.headers
        if leg.kind == "prefill":
            headers = to_prefill(headers, target.ranks)
        if table.traced:
            headers = self._traced(headers, leg)
        try:
            response = await self._services.upstream.send(
                Call(
                    target=target,
                    method=exchange.method,
                    path=exchange.path,
                    headers=headers,
                    body=parcel,
                    connect_s=limits.connect_timeout_s if connect_s is None else connect_s,
                    first_byte_s=limits.first_byte_timeout_s,
                )
            )
            leg.headers = self._trace.monotonic()
            leg.status = response.status
            reader = Reader(response, limits.first_byte_timeout_s)
            answer = Answer(target, leg, response, reader)
            return await self._read_head(answer)
        except LegError as error:
            return self._fail(leg, target, error.failed)

    def _traced(self, headers: CIMultiDict[str], leg: LegTrace) -> CIMultiDict[str]:
        """Headers that make the engine's spans children of this leg's."""
        trace = self._trace
        if not trace.context:
            trace.context = begin(headers.get(TRACEPARENT, ""), secrets.token_hex)
        headers = headers.copy()
        headers[TRACEPARENT] = leg_parent(trace.context, trace.legs.index(leg))
        return headers

    async def _read_head(self, answer: Answer) -> Answer | Rejected | Failed:
        status, leg = answer.response.status, answer.leg
        self.answer = answer
        is_prefill = leg.kind == "prefill"
        is_stream = answer.response.content_type == "text/event-stream"
        if status < 400 and not is_prefill and (is_stream or self._exchange.body is None):
            if is_stream and self._exchange.body is not None:
                self._trace.stream = True
                answer.scanner = Scanner(self._exchange.facts.endpoint)
            else:
                self._services.dispatcher.answered(answer.target)
            return answer
        answer.body = await answer.reader.rest()
        answer.reader.close(reusable=True)
        answer.whole = True
        leg.done = self._trace.monotonic()
        if status < 500 or status == 501:
            self._services.dispatcher.answered(answer.target)
        if status < 400:
            return answer
        said = error_of(_loads(answer.body))
        leg.error = said[1][:500] if said else f"status {status}"
        if status < 500 or status == 501:
            return Rejected(status)
        return self._fail(leg, answer.target, Failed(Failure.STATUS, leg.error, status))

    async def _first_events(self, answer: Answer, table: RoutingTable) -> Event:
        """Read on until there is something that the client must see."""
        scanner, held = answer.scanner, []
        assert scanner is not None  # noqa: S101 - asked for streams only
        size = 0
        try:
            while True:
                data = await answer.reader.read()
                if answer.leg.first_byte is None:
                    answer.leg.first_byte = self._trace.monotonic()
                scan = scanner.feed(data) if data else scanner.finish()
                held.append(scan.ready)
                size += len(scan.ready)
                answer.tokens += scan.tokens
                if scanner.committed or size > HOLD_BACK:
                    self._services.dispatcher.answered(answer.target)
                    answer.body = b"".join(held)
                    if answer.tokens:
                        answer.flow(table.limits.stall_timeout_s)
                    return Started(has_token=answer.flows)
                if failed := _empty_end(scanner, ended=not data):
                    answer.reader.close()
                    return self._fail(answer.leg, answer.target, failed)
        except LegError as error:
            return self._fail(answer.leg, answer.target, error.failed)

    def _judge_body(self, answer: Answer) -> Event:
        """A whole body: an abort is a failure although its status is 200."""
        body = _loads(answer.body)
        finish = finish_of(body)
        if finish == "abort":
            failed = Failed(Failure.ABORTED, "the engine aborted the request")
            return self._fail(answer.leg, answer.target, failed)
        answer.leg.engine = engine_metrics(body)
        self._trace.finish_reason = finish
        self._trace.usage(usage_of(body))
        return Started()

    def _fail(self, leg: LegTrace, target: Target, failed: Failed) -> Failed:
        """Note a failed leg, and tell those who should look at the instance."""
        leg.done = leg.done or self._trace.monotonic()
        leg.error = leg.error or failed.why or str(failed.how)
        leg.failure = failed.how.value
        if self.answer is not None:
            self.answer.reader.close()
            self.answer = None
        self.suspect(target, failed)
        return failed

    def suspect(self, target: Target, failed: Failed) -> None:
        """Count it against the instance; a refused connection and a death are reported."""
        dispatcher = self._services.dispatcher
        if failed.how in _COUNTED:
            words = failed.why if failed.status is None else f"status {failed.status}"
            at_once = failed.how is Failure.CONNECT
            dispatcher.failed(target, f"{failed.how}: {words}", at_once=at_once)
        if failed.how in _SUSPICIOUS:
            why = f"{failed.how}: {failed.why}"
            dispatcher.outbox.put(Suspect(target.id, target.generation, why))

    async def _release_kv(self) -> None:
        """Have decode refuse the params: vLLM then tells prefill to free the blocks at once."""
        if self._unsent is None:
            return
        (parcel, target, table), self._unsent = self._unsent, None
        body = bodies.write({**_loads(parcel.content), "model": _RELEASE_MODEL})
        call = Call(
            target, self._exchange.method, self._exchange.path, self._exchange.headers,
            Parcel(body), connect_s=_connect_s(table), first_byte_s=_connect_s(table),
        )  # fmt: skip
        try:
            response = await self._services.upstream.send(call)
        except LegError:
            return
        response.close()


def _empty_end(scanner: Scanner, *, ended: bool) -> Failed | None:
    """How a stream without any token ended, None while it goes on.

    vLLM that is shutting down ends a stream with no token and no finish_reason, or with "abort".
    """
    if scanner.error is not None:
        code, words = scanner.error
        return Failed(Failure.STATUS, words[:500], code if 500 <= code < 600 else 500)
    if scanner.closed:
        return Failed(Failure.ABORTED, "the stream ended without a token")
    if ended:
        return Failed(Failure.DIED, "the stream ended before it began")
    return None


@cache
def connector(name: str) -> Connector:
    """The connector called `name`."""
    found: Connector = plugins.load(plugins.CONNECTORS, name)
    return found


def _connect_s(table: RoutingTable) -> float:
    return table.limits.connect_timeout_s


def _loads(data: bytes) -> dict[str, object]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
