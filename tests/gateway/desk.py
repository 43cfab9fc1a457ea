"""A data plane under test: its engines, its table, a client, and all that it reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import aiohttp
from tests.fakes.waiting import until

from pdctl.adapters.clock import SystemClock
from pdctl.domain.handoff import Load, RequestRecord, Suspect
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, RouterSpec, SloSpec
from pdctl.gateway.plane import LocalDataPlane
from pdctl.tasks import settle, spawn

COMPLETIONS, CHAT, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
ROLES = {"p": Role.PREFILL, "d": Role.DECODE, "b": Role.BOTH}


class Listening(Protocol):
    """Anything with a port: a simulated engine or a rogue."""

    port: int


class Desk:
    """Pushes tables, sends requests and collects events."""

    def __init__(self) -> None:
        self.plane = LocalDataPlane("127.0.0.1", 0, clock=SystemClock())
        self.engines: dict[str, Listening] = {}
        self.records: list[RequestRecord] = []
        self.loads: list[Load] = []
        self.suspects: list[Suspect] = []
        self.ranks: dict[str, int] = {}
        self.slos: tuple[SloSpec, ...] = ()
        self.seq = 0
        self.limits: dict[str, Any] = {"queue_timeout_s": 5.0, "connect_timeout_s": 2.0}

    async def __aenter__(self) -> Desk:
        await self.plane.start()
        self.client = aiohttp.ClientSession(self.plane.url)
        self._reader = spawn(self._collect(), name="events of the desk")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.plane.stop(0.0)
        await settle(self._reader)

    async def push(
        self,
        mode: Mode = Mode.PD,
        *,
        pairs: Sequence[tuple[str, str]] | None = None,
        draining: Sequence[str] = (),
        generation: int = 1,
        lease_s: float = 30.0,
        **limits: Any,
    ) -> RoutingTable:
        """Push a table over all engines; the first letter of an id is its role."""
        self.seq += 1
        targets = tuple(
            Target(
                InstanceId(id_), ROLES[id_[0]].value, ROLES[id_[0]], "127.0.0.1", one.port,
                generation, id_ not in draining, ranks=self.ranks.get(id_, 0),
            )
            for id_, one in self.engines.items()
        )  # fmt: skip
        if pairs is None:
            pairs = [(p, d) for p in self.engines for d in self.engines if p[0] + d[0] == "pd"]
        table = RoutingTable(
            seq=self.seq,
            mode=mode,
            served_name="tiny",
            connector="nixl",
            lease_s=lease_s,
            limits=RouterSpec(**{**self.limits, **limits}),
            targets=targets,
            slos=self.slos,
            pairs=tuple((InstanceId(p), InstanceId(d)) for p, d in pairs),
        )
        await self.plane.push(table)
        return table

    async def post(self, path: str, body: Any, **more: Any) -> tuple[int, Any]:
        """(status, parsed body) of one JSON request."""
        async with self.client.post(path, json=body, **more) as answer:
            return answer.status, await answer.json(content_type=None)

    async def raw(self, path: str, body: Any, **more: Any) -> bytes:
        """The bytes of an answer."""
        async with self.client.post(path, json=body, **more) as answer:
            return await answer.read()

    async def complete(
        self, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> tuple[int, Any]:
        """One completion."""
        body = {"model": "tiny", "prompt": "hello", **fields}
        return await self.post(COMPLETIONS, body, headers=headers)

    async def record(self, count: int = 1) -> RequestRecord:
        """The newest record, once there are `count` of them."""
        await until(lambda: len(self.records) >= count)
        assert len(self.records) == count
        return self.records[-1]

    async def idle(self) -> None:
        """Wait until nothing is open: every reservation was given back."""
        await until(lambda: not self.plane.load.inflight and not self.plane.load.queued)

    async def _collect(self) -> None:
        async for event in self.plane.events():
            match event:
                case RequestRecord():
                    self.records.append(event)
                case Load():
                    self.loads.append(event)
                case Suspect():
                    self.suspects.append(event)


async def read_some(answer: aiohttp.ClientResponse, part: bytes, limit_s: float = 20.0) -> bytes:
    """Read until `part` has come."""
    data = b""
    async with asyncio.timeout(limit_s):
        while part not in data:
            piece = await answer.content.readany()
            assert piece, data
            data += piece
    return data
