"""The front door: which paths are served, how bodies are read, and the answers that need no engine.

Bodies of the PD endpoints are parsed once; all other paths of an engine's public surface pass
through to one instance, as they came. Engines' control and metrics paths are not reachable from
here, and no client's body tells an engine whom to connect to.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import HttpVersion11, StreamReader, web

from pdctl.connectors import PD_ENDPOINTS
from pdctl.domain.handoff import Outcome
from pdctl.domain.keys import ApiKey
from pdctl.domain.topology import RouterSpec
from pdctl.gateway import bodies
from pdctl.gateway.bodies import RefusedError
from pdctl.gateway.exchange import Exchange, Services
from pdctl.gateway.headers import SERVER, to_engine
from pdctl.gateway.keys import HEADERS, Denial, Keyring
from pdctl.gateway.paths import Place, not_passed, place_of
from pdctl.gateway.relay import OUR_LIMITS, error_response, json_response
from pdctl.gateway.runner import Run
from pdctl.gateway.trace import Trace
from pdctl.routing import openai
from pdctl.routing.facts import RequestFacts, read_facts
from pdctl.routing.machine import Handoff
from pdctl.routing.openai import Mistake
from pdctl.routing.prefix import chain_of

SLO = "X-Pdctl-Slo"
"""The header in which a client names the objective that its request is routed by."""
SESSION = "X-Session-Id"
"""The header in which a client names its session; `prompt_cache_key` and `user` do as well."""


SLOWEST = 4096
"""Bytes a second at which a body may come once it is late: a drip would hold its connection for
ever otherwise."""


class Front:
    """Answers every request of the data plane."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._created = int(services.now())
        self._keyring = Keyring(services.monotonic)

    @property
    def admitted(self) -> int:
        """Open requests that count against an API key."""
        return self._keyring.open()

    async def handle(self, request: web.BaseRequest, id_: str) -> web.StreamResponse:
        """One request; `id_` is its X-Request-Id."""
        place = place_of(request.raw_path)
        if place.path in ("/health", "/ping"):
            return self._health(id_)
        key = self._who(request)
        if isinstance(key, Denial):
            return denied(key, id_, place.path)
        if (answer := self._without_engine(request, place.path, id_)) is not None:
            return answer
        if (denial := self._enter(key)) is not None:
            return self._deny(denial, place, id_)
        try:
            generates = place.path in PD_ENDPOINTS and request.method == "POST"
            serve = self._generate if generates else self._pass
            return await serve(request, place, id_, key.name if key else "")
        finally:
            if key is not None:
                self._keyring.leave(key)

    def _without_engine(
        self, request: web.BaseRequest, path: str, id_: str
    ) -> web.StreamResponse | None:
        """The answer that needs no engine; None where one is needed."""
        if path in PD_ENDPOINTS and request.method == "POST":
            return None
        if path in PD_ENDPOINTS and path != "/v1/responses":
            response = error_response(405, f"{path} takes POST.", id_=id_, endpoint=path)
            response.headers["Allow"] = "POST"
            return response
        if request.method in ("GET", "HEAD") and path.startswith("/v1/models"):
            return self._models(path, id_)
        if mistake := not_passed(path) or _upgrade(request):
            return error_response(mistake.status, mistake.message, id_=id_)
        return None

    def _who(self, request: web.BaseRequest) -> ApiKey | Denial | None:
        """Whose request it is; None where no keys are asked for."""
        file = self._limits.keys_file
        return self._keyring.who(request.headers, file) if file else None

    def _enter(self, key: ApiKey | None) -> Denial | None:
        board = self._services.dispatcher.board
        if key is None or board is None:
            return None
        return self._keyring.enter(key, board.table.limits, board.table.served_name)

    def _deny(self, denial: Denial, place: Place, id_: str) -> web.Response:
        """Turn a client away that is known: its operator sees it among the requests."""
        services = self._services
        trace = Trace(id_, RequestFacts(place.path), services.now(), services.monotonic)
        trace.key = denial.client
        outcome = Outcome.OVERLOADED if denial.status == 429 else Outcome.REJECTED
        services.dispatcher.outbox.put(
            trace.record(Handoff(), outcome, denial.status, denial.message)
        )
        return denied(denial, id_, place.path)

    @property
    def _limits(self) -> RouterSpec:
        board = self._services.dispatcher.board
        return board.table.limits if board else OUR_LIMITS

    def _secret(self) -> frozenset[str]:
        """Headers that may hold a client's key."""
        return HEADERS if self._limits.keys_file else frozenset()

    def _health(self, id_: str) -> web.Response:
        """200 while at least one instance takes requests."""
        board = self._services.dispatcher.board
        if board is None or not board.everyone:
            return error_response(503, "No instance is ready to serve requests.", id_=id_)
        return web.Response(headers={"X-Request-Id": id_, "Server": SERVER})

    def _models(self, path: str, id_: str) -> web.Response:
        """The served model, also while no instance is ready: clients look here to name it."""
        board = self._services.dispatcher.board
        if board is None:
            return error_response(503, "The fleet is not known yet.", id_=id_)
        served = board.table.served_name
        if path.rstrip("/") == "/v1/models":
            return json_response(openai.model_list(served, self._created), id_=id_)
        name = path.removeprefix("/v1/models/")
        if name != served:
            mistake = openai.unknown_model(name)
            return error_response(404, mistake.message, mistake.param, id_=id_)
        return json_response(openai.model_card(served, self._created), id_=id_)

    async def _generate(
        self, request: web.BaseRequest, place: Place, id_: str, key: str
    ) -> web.StreamResponse:
        """A request that may be handed from prefill to decode."""
        services = self._services
        trace = Trace(id_, RequestFacts(place.path), services.now(), services.monotonic)
        trace.key = key
        try:
            raw, body = await self._read(request, place.path, trace)
        except RefusedError as refused:
            return self._turn_away(trace, refused.mistake)
        exchange = Exchange(
            request=request,
            id=id_,
            client=key or request.remote or "",
            facts=trace.facts,
            method="POST",
            path=place.sent,
            headers=to_engine(request.headers, id_, plain=True, secret=self._secret()),
            raw=raw,
            body=body,
        )
        return await Run(services, exchange, trace).go()

    async def _read(
        self, request: web.BaseRequest, path: str, trace: Trace
    ) -> tuple[bytes, dict[str, Any]]:
        """The body, raw and parsed; its facts go into the trace as soon as they are known."""
        if mistake := _wrong_media(request):
            raise RefusedError(mistake)
        raw = await self._read_raw(request)
        body = bodies.read(raw)
        if mistake := openai.mistake_in(body, path):
            raise RefusedError(mistake)
        headers = request.headers
        trace.facts = read_facts(body, path, headers.get(SESSION, ""), headers.get(SLO, ""))
        trace.stream = trace.facts.stream
        board = self._services.dispatcher.board
        if board is not None:
            if board.wants_history:
                memory = self._services.dispatcher.memory
                trace.facts = memory.read(trace.facts, chain_of(body, path))
            trace.mode = board.table.mode
            if trace.facts.model not in ("", board.table.served_name):
                raise RefusedError(openai.unknown_model(trace.facts.model))
            if trace.facts.slo and board.table.objective(trace.facts.slo) is None:
                raise RefusedError(Mistake(f"There is no SLO {trace.facts.slo[:80]!r} here.", SLO))
        return raw, body

    async def _read_raw(self, request: web.BaseRequest) -> bytes:
        limits = self._limits
        most, content = limits.max_body_bytes, request.content
        too_large = Mistake(f"The request body is larger than {most} bytes.", status=413)
        if mistake := _framing(request):
            raise RefusedError(mistake)
        if (request.content_length or 0) > most:
            raise RefusedError(too_large)
        if "Expect" in request.headers:
            await _go_on(request)
        pieces, size = [], 0
        begun = asyncio.get_running_loop().time()
        while not content.at_eof():
            # Most bodies came with their headers: only those that did not are worth a timer.
            waits = not content.is_eof()
            due = begun + limits.slow_client_timeout_s + size / SLOWEST
            piece = await _piece(content, limits, due) if waits else content.read_nowait()
            size += len(piece)
            if size > most:
                raise RefusedError(too_large)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _turn_away(self, trace: Trace, mistake: Mistake) -> web.Response:
        record = trace.record(Handoff(), Outcome.REJECTED, mistake.status, mistake.message)
        self._services.dispatcher.outbox.put(record)
        response = error_response(
            mistake.status, mistake.message, mistake.param, id_=trace.id,
            endpoint=trace.facts.endpoint,
        )  # fmt: skip
        if mistake.status in (408, 413, 501):
            response.force_close()
        return response

    async def _pass(
        self, request: web.BaseRequest, place: Place, id_: str, key: str
    ) -> web.StreamResponse:
        """Any other request of an engine's public surface, whole, to one instance."""
        services = self._services
        facts = RequestFacts(place.path, blocker="endpoint")
        trace = Trace(id_, facts, services.now(), services.monotonic)
        trace.key = key
        try:
            raw = await self._read_raw(request)
            _inspect(request, raw)
        except RefusedError as refused:
            return self._turn_away(trace, refused.mistake)
        exchange = Exchange(
            request=request,
            id=id_,
            client=key or request.remote or "",
            facts=facts,
            method=request.method,
            path=place.sent,
            headers=to_engine(request.headers, id_, plain=False, secret=self._secret()),
            raw=raw,
            body=None,
        )
        return await Run(services, exchange, trace).go()


def denied(denial: Denial, id_: str, path: str) -> web.Response:
    """The answer to who is not let in."""
    response = error_response(denial.status, denial.message, id_=id_, endpoint=path)
    if denial.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if denial.retry_after_s is not None:
        response.headers["Retry-After"] = str(denial.retry_after_s)
    return response


async def _go_on(request: web.BaseRequest) -> None:
    """Ask for the body of a client that waits to be asked (RFC 9110, 10.1.1)."""
    if request.headers["Expect"].lower() == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _piece(content: StreamReader, limits: RouterSpec, due: float) -> bytes:
    """The next bytes of a body that is still on its way, when they come before `due`."""
    patience = limits.slow_client_timeout_s
    silent_until = asyncio.get_running_loop().time() + patience
    try:
        async with asyncio.timeout_at(min(due, silent_until)):
            return await content.readany()
    except TimeoutError:
        words = f"No more of the request body came for {patience:g} s."
        if due < silent_until:
            least = f"{SLOWEST} bytes a second are the least after the first {patience:g} s"
            words = f"The request body comes too slowly: {least}."
        raise RefusedError(Mistake(words, status=408)) from None


def _framing(request: web.BaseRequest) -> Mistake | None:
    """A body whose end another reader could see elsewhere (RFC 9112, 6.1)."""
    coding = request.headers.get("Transfer-Encoding")
    if coding is None or (coding.lower() == "chunked" and request.version >= HttpVersion11):
        return None
    words = f"The transfer coding {coding[:80]!r} is not taken"
    return Mistake(f"{words}: send the body's length, or chunks over HTTP/1.1.", status=501)


def _wrong_media(request: web.BaseRequest) -> Mistake | None:
    media = _media(request)
    if media != "application/json":
        words = f"Unsupported media type {media!r}: only 'application/json' is allowed."
        return Mistake(words, status=415)
    return _coded(request)


def _media(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _coded(request: web.BaseRequest) -> Mistake | None:
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding in ("", "identity"):
        return None
    return Mistake(f"Unsupported content encoding {coding!r}: send it plain.", status=415)


def _inspect(request: web.BaseRequest, raw: bytes) -> None:
    """Refuse a passed body that would tell an engine whom to connect to.

    Not every engine's endpoint looks at the media type: what begins like JSON counts as JSON.
    """
    media = _media(request)
    says_json = media == "application/json" or media.endswith("+json")
    if not raw or not (says_json or bodies.looks_like_json(raw)):
        return
    if mistake := _coded(request) or openai.transfer_params_in(bodies.read(raw)):
        raise RefusedError(mistake)


def _upgrade(request: web.BaseRequest) -> Mistake | None:
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return Mistake("WebSocket endpoints are not routed.", status=501)
    return None
