"""The HTTP side of one engine: vLLM's routes, its answers and its streams.

A handler that ends, for whatever reason, aborts what it started: a client that goes away frees its
blocks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import orjson
from aiohttp import web

from pdctl.simulated.calls import Call, Prompt, start
from pdctl.simulated.chat import Chat, render
from pdctl.simulated.clock import epoch_seconds
from pdctl.simulated.completions import Completions
from pdctl.simulated.config import VERSION, SimConfig
from pdctl.simulated.exposition import render as render_metrics
from pdctl.simulated.faults import Faults, UnknownFaultError
from pdctl.simulated.fields import check_streaming, check_types, missing
from pdctl.simulated.generation import Delta, Generation
from pdctl.simulated.messages import Messages, error_body
from pdctl.simulated.problems import (
    ApiError,
    Refused,
    Rejected,
    generation_failed,
    queue_full,
)
from pdctl.simulated.ranks import Rank
from pdctl.simulated.responses import Responses
from pdctl.simulated.vocabulary import encode

SSE_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8"}
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Dialect(Protocol):
    """One generating endpoint."""

    path: str
    id_prefix: str
    takes_request_id: bool
    takes_rank: bool
    default_max_tokens: int | None
    limits: tuple[str, ...]

    def prompts(self, body: dict[str, Any]) -> list[Prompt]: ...
    def whole(self, call: Call) -> dict[str, Any]: ...
    def opening(self, call: Call, generation: Generation) -> bytes: ...
    def chunk(self, call: Call, generation: Generation, delta: Delta) -> bytes: ...
    def closing(self, call: Call) -> bytes: ...
    def failure(self, call: Call, body: dict[str, Any]) -> bytes: ...


class Server:
    """The routes of one engine."""

    def __init__(self, config: SimConfig, faults: Faults, ranks: Sequence[Rank]) -> None:
        self.is_dead = False
        """Whether the engine behind the server is gone; /health then answers 503."""
        self._config = config
        self._faults = faults
        self._ranks = ranks
        self._draws = ranks[0].draws
        self._load = 0

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=64 * 2**20, middlewares=[self._errors])
        for path in ("/health", "/ping"):
            app.router.add_get(path, self._health)
        app.router.add_get("/load", self._show_load)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_get("/kv_event_sources", self._kv_event_sources)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/simulated/faults", self._show_faults)
        app.router.add_post("/simulated/faults", self._set_faults)
        dialects: tuple[Dialect, ...] = (Completions(), Chat(), Responses(), Messages())
        for dialect in dialects:
            app.router.add_post(dialect.path, self._handler(dialect))
        return app

    # Generating endpoints.

    def _handler(self, dialect: Dialect) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._load += 1
            try:
                return await self._generate(request, dialect)
            finally:
                self._load -= 1

        return handle

    async def _generate(self, request: web.Request, dialect: Dialect) -> web.StreamResponse:
        body = await _json(request)
        self._fail_on_purpose(body)
        check_types(body)
        check_streaming(body)
        params = body.get("kv_transfer_params") or {}
        try:
            call = self._call(request, dialect, body)
            start(call, self._draws)
            rank = self._rank(request, dialect)
            self._check_queue(call, rank)
        except Rejected:
            raise
        except ApiError:
            if params.get("do_remote_prefill"):
                await self._ranks[0].puller.release(params)
            raise
        try:
            for generation in call.generations:
                rank.scheduler.submit(generation)
            if call.stream:
                return await self._stream(request, dialect, call)
            return await self._whole(request, dialect, call)
        finally:
            for generation in call.generations:
                rank.scheduler.abort(generation)

    def _call(self, request: web.Request, dialect: Dialect, body: dict[str, Any]) -> Call:
        given = body.get("request_id")
        if dialect.takes_request_id:
            given = request.headers.get("X-Request-Id") or given
        limit = next((name for name in dialect.limits if body.get(name) is not None), None)
        return Call(
            id=dialect.id_prefix + (given or self._draws.hexadecimal(16)),
            body=body,
            prompts=dialect.prompts(body),
            max_tokens=dialect.default_max_tokens if limit is None else body[limit],
            max_tokens_name=limit or dialect.limits[-1],
            created=int(epoch_seconds()),
            config=self._config,
        )

    def _rank(self, request: web.Request, dialect: Dialect) -> Rank:
        """The rank that the request names, else the one with the least to do."""
        named = request.headers.get("X-data-parallel-rank", "") if dialect.takes_rank else ""
        if not named.lstrip("-").isdecimal():
            return min(self._ranks, key=lambda rank: rank.load)
        number, count = int(named), len(self._ranks)
        if not 0 <= number < count:
            raise Refused(f"data_parallel_rank {number} is out of range [0, {count}).")
        return self._ranks[number]

    def _check_queue(self, call: Call, rank: Rank) -> None:
        limit = self._config.max_num_queued_reqs
        waiting = rank.scheduler.num_waiting() + len(call.generations)
        is_full = limit is not None and waiting > limit
        if is_full or self._faults.strike(self._faults.queue_full):
            rank.metrics.admission_rejections.add()
            raise queue_full()

    def _fail_on_purpose(self, body: dict[str, Any]) -> None:
        is_prefill = bool((body.get("kv_transfer_params") or {}).get("do_remote_decode"))
        status = self._faults.fail_prefill if is_prefill else self._faults.fail_decode
        if self._faults.strike(status):
            kind = "InternalServerError" if status >= 500 else "BadRequestError"
            raise ApiError(status, "Failed on purpose (simulated)", kind)

    async def _whole(
        self, request: web.Request, dialect: Dialect, call: Call
    ) -> web.StreamResponse:
        while not call.is_finished:
            await call.bell.wait()
            await self._maybe_die(request, call)
        if call.has_failed:
            raise generation_failed()
        return _answer(dialect.whole(call))

    async def _stream(
        self, request: web.Request, dialect: Dialect, call: Call
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=SSE_HEADERS)
        self._identify(request, response)
        await response.prepare(request)
        opened = False
        while not all(one.is_read for one in call.generations):
            await call.bell.wait()
            await self._maybe_die(request, call)
            if call.has_failed:
                await response.write(dialect.failure(call, generation_failed().body()))
                return response
            parts = [] if opened else [dialect.opening(call, one) for one in call.generations]
            opened = True
            for one in call.generations:
                delta = one.take()
                if delta is not None and (delta.tokens or delta.first):
                    parts.append(dialect.chunk(call, one, delta))
            await response.write(b"".join(parts))
        await response.write(dialect.closing(call))
        return response

    async def _maybe_die(self, request: web.Request, call: Call) -> None:
        after = self._faults.die_after_tokens
        made = max(len(one.tokens) for one in call.generations)
        if after and made >= after and self._faults.strike(after):
            await cut(request)

    # Everything else.

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=503 if self.is_dead else 200)

    async def _show_load(self, request: web.Request) -> web.Response:
        tracked = self._config.enable_server_load_tracking
        return _answer({"server_load": self._load if tracked else 0})

    async def _version(self, request: web.Request) -> web.Response:
        return _answer({"version": VERSION})

    async def _show_metrics(self, request: web.Request) -> web.Response:
        page = render_metrics([rank.metrics.registry for rank in self._ranks]).encode()
        return web.Response(body=page, headers={"Content-Type": METRICS_TYPE})

    async def _kv_event_sources(self, request: web.Request) -> web.Response:
        return _answer(self._ranks[0].publisher.sources())

    async def _models(self, request: web.Request) -> web.Response:
        name, created = self._config.model_name, int(epoch_seconds())
        permission = {
            "id": f"modelperm-{self._draws.hexadecimal(16)}",
            "object": "model_permission",
            "created": created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        card = {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "simulated",
            "root": name,
            "parent": None,
            "max_model_len": self._config.max_model_len,
            "permission": [permission],
        }
        return _answer({"object": "list", "data": [card]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await _json(request)
        if isinstance(body.get("messages"), list):
            text = render(body["messages"])
        elif isinstance(body.get("prompt"), str):
            text = body["prompt"]
        else:
            missing("prompt")
        tokens = encode(text)
        shown: dict[str, Any] = {
            "count": len(tokens),
            "max_model_len": self._config.max_model_len,
            "tokens": tokens,
            "token_strs": None,
        }
        return _answer(shown)

    async def _show_faults(self, request: web.Request) -> web.Response:
        return _answer(self._faults.as_dict())

    async def _set_faults(self, request: web.Request) -> web.Response:
        try:
            self._faults.update(await _json(request))
        except UnknownFaultError as error:
            raise ApiError(400, str(error), "BadRequestError") from error
        return _answer(self._faults.as_dict())

    @web.middleware
    async def _errors(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Answer errors in the OpenAI envelope, and cut connections when told to refuse them."""
        if self._faults.refuse_connections:
            await cut(request)
        try:
            response: web.StreamResponse = await handler(request)
        except ApiError as error:
            body = error.body()
            if request.path == Messages.path and not isinstance(error, Rejected):
                body = error_body(body)
            response = _answer(body, status=error.status)
        except web.HTTPException as error:
            response = _answer({"detail": error.reason}, status=error.status)
        if not response.prepared:
            self._identify(request, response)
        return response

    def _identify(self, request: web.Request, response: web.StreamResponse) -> None:
        if self._config.enable_request_id_headers:
            given = request.headers.get("X-Request-Id")
            response.headers["X-Request-Id"] = given or self._draws.hexadecimal(32)


async def cut(request: web.Request) -> NoReturn:
    """End the connection as a crash would: no more bytes, no proper end.

    Never returns: the server cancels the handler of a connection that is gone.
    """
    if request.transport is not None:
        request.transport.abort()
    await asyncio.Event().wait()
    raise asyncio.CancelledError


async def _json(request: web.Request) -> dict[str, Any]:
    """The body as an object."""
    kind = request.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        message = "Unsupported Media Type: Only 'application/json' is allowed"
        raise ApiError(400, f"1 validation error:\n  {message}", "Bad Request")
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        location = f"body.{error.pos}"
        raise Rejected("json_invalid", location, "JSON decode error") from error
    if not isinstance(body, dict):
        raise Rejected("model_attributes_type", "body", "Input should be a valid dictionary")
    return body


def _answer(content: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")
