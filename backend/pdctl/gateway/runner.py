"""Runs one request: carries out the machine's commands and feeds back what happened.

It decides nothing. Whatever way a request ends (answered, refused, cut, its client gone), what it
had open is released and one record leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from aiohttp import web

from pdctl.domain.handoff import Outcome, Path
from pdctl.gateway.exchange import Exchange, Services
from pdctl.gateway.ledger import Reservation
from pdctl.gateway.legs import Legs
from pdctl.gateway.pace import Pace
from pdctl.gateway.relay import Relay
from pdctl.gateway.tokens import told
from pdctl.gateway.trace import Trace
from pdctl.routing import signals
from pdctl.routing.machine import Handoff, Stage, advance, start
from pdctl.routing.router import Refusal, Route
from pdctl.routing.signals import Commands, Event


class Run:
    """One request under way."""

    def __init__(self, services: Services, exchange: Exchange, trace: Trace) -> None:
        self._services, self._exchange, self._trace = services, exchange, trace
        self._legs = Legs(services, exchange, trace)
        self._relay = Relay(exchange, trace)
        self._pace = Pace(services.dispatcher, trace)
        self._handoff = Handoff()
        self._commands: list[signals.Command] = []
        self._reservation: Reservation | None = None
        self._asked = False
        """Whether the prompt's token ids were asked for."""

    async def go(self) -> web.StreamResponse:
        """From the first decision to the last byte."""
        handoff, commands = start(may_resend=self._exchange.body is not None)
        self._take(handoff, commands)
        try:
            await self._drive()
        except ConnectionResetError:
            await self._left()
        except asyncio.CancelledError:
            if not self._cut_by_us():
                await self._left()
                raise
            await self._stopped()
        except Exception:
            await self._broke()
            raise
        finally:
            self._relay.close()
        response = self._relay.response
        return response if response is not None else web.Response(status=499)

    async def _drive(self) -> None:
        while self._commands:
            event = await self._next()
            if event is not None:
                self._take(*advance(self._handoff, event))

    async def _next(self) -> Event | None:
        command = self._commands[0]
        event = await self._DO[type(command)](self, command)
        self._commands.pop(0)
        return event

    def _take(self, handoff: Handoff, commands: Commands) -> None:
        self._handoff, self._commands = handoff, list(commands)

    async def _left(self) -> None:
        """The client is gone. What is still to do needs no client and does not wait."""
        gone = signals.ClientGone(self._relay.gave_up or "client left")
        self._legs.drop(f"the {gone.why}")
        if self._handoff.stage is not Stage.DONE:
            self._take(*advance(self._handoff, gone))
        self._commands = [
            one for one in self._commands if isinstance(one, signals.Release | signals.Finish)
        ]
        await self._drive()

    def _cut_by_us(self) -> bool:
        return self._services.stopping and self._exchange.request.transport is not None

    async def _stopped(self) -> None:
        """The router stops: say so to the client instead of vanishing."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        self._legs.drop("the router stopped")
        if self._handoff.stage is not Stage.DONE:
            failed = signals.Failed(signals.Failure.STOPPED, "the router is stopping")
            self._take(*advance(self._handoff, failed))
        try:
            await self._drive()
        except (ConnectionResetError, asyncio.CancelledError):
            await self._left()

    async def _broke(self) -> None:
        """A bug of ours: nothing stays open because of it, and the record says whose it is."""
        self._legs.drop("the router failed")
        transport = self._exchange.request.transport
        if self._relay.response is not None and transport is not None:
            transport.close()
        if self._reservation is not None:
            self._services.dispatcher.release_all(self._reservation)
        await self._finish(signals.Finish(Outcome.UPSTREAM_ERROR, 500, "the router failed"))

    @property
    def _route(self) -> Route:
        assert self._handoff.route is not None  # noqa: S101 - legs are sent on routes only
        return self._handoff.route

    async def _find_route(self, command: signals.FindRoute) -> Event:
        await self._learn_tokens()
        trace, begun = self._trace, self._trace.monotonic()
        exchange = self._exchange
        found = await self._services.dispatcher.find(exchange.facts, command.avoid, exchange.client)
        waited = (trace.monotonic() - begun) * 1000
        trace.queued_ms = waited + (trace.queued_ms or 0.0)
        if isinstance(found, Refusal):
            trace.refused = found.reason
            return signals.Refused(found)
        self._reservation = found
        trace.mode = found.route.table.mode
        return signals.Routed(found.route)

    async def _learn_tokens(self) -> None:
        """Once, and only where a policy compares token ids with what instances hold."""
        desk, exchange = self._services.dispatcher, self._exchange
        wanted = desk.board is not None and desk.board.wants_events
        if exchange.body is None or self._asked or not wanted:
            return
        self._asked = True
        exchange.facts = self._trace.facts = await told(
            exchange.facts, exchange.body, desk=desk, upstream=self._services.upstream
        )

    async def _send_prefill(self, command: signals.SendPrefill) -> Event:
        event = await self._legs.prefill(command.target, command.why, self._route.table)
        if isinstance(event, signals.PrefillReplied):
            self._pace.prefilled(command.target, self._reservation)
        return event

    async def _send_decode(self, command: signals.SendDecode) -> Event:
        event = await self._legs.decode(
            command.target, command.why, self._route.table, command.params, command.within_s
        )
        self._note_first_token(event)
        return event

    async def _send_whole(self, command: signals.SendWhole) -> Event:
        if self._reservation is not None:
            self._reservation.goes_by(self._handoff.path)
        return await self._legs.whole(command.target, command.why, self._route.table)

    async def _hold(self, command: signals.Hold) -> None:
        if self._reservation is not None:
            self._services.dispatcher.hold(self._reservation, command.instance)

    async def _release(self, command: signals.Release) -> None:
        if self._reservation is not None:
            self._services.dispatcher.release(self._reservation, command.instance)

    async def _relay_answer(self, command: signals.Relay) -> Event:
        answer = self._legs.answer
        assert answer is not None  # noqa: S101 - Relay follows Started, which set it
        event = await self._relay.answer(answer, self._route.table.limits)
        self._note_first_token(event)
        if isinstance(event, signals.Failed):
            self._legs.suspect(answer.target, event)
        return event

    async def _forward(self, command: signals.Forward) -> None:
        answer = self._legs.answer
        assert answer is not None  # noqa: S101 - Forward follows Rejected, which set it
        await self._relay.body(answer, self._route.table.limits)

    async def _refuse(self, command: signals.Refuse) -> None:
        await self._relay.refuse(command.status, command.message, command.retry_after_s)

    async def _break_off(self, command: signals.BreakOff) -> None:
        await self._relay.break_off(command.status, command.message)

    def _note_first_token(self, event: Event) -> None:
        """The first token is there: say so when it had to wait for the lease to end."""
        has_token = isinstance(event, signals.FirstToken) or (
            isinstance(event, signals.Started) and event.has_token
        )
        if not has_token:
            return
        self._pace.first_token(self._route, self._reservation)
        if self._route.path is not Path.PD:
            return
        first = self._services.dispatcher.first_pull(self._route)
        self._legs.note_pull(self._route.table.lease_s, first=first)

    async def _finish(self, command: signals.Finish) -> None:
        record = self._trace.record(
            self._handoff, Outcome(command.outcome), command.status, command.error
        )
        self._services.dispatcher.outbox.put(record)
        self._pace.finished(record.tpot_ms, record.completion_tokens)

    _DO: ClassVar[dict[type, Callable[[Run, Any], Awaitable[Event | None]]]] = {
        signals.FindRoute: _find_route,
        signals.SendPrefill: _send_prefill,
        signals.SendDecode: _send_decode,
        signals.SendWhole: _send_whole,
        signals.Hold: _hold,
        signals.Release: _release,
        signals.Relay: _relay_answer,
        signals.Forward: _forward,
        signals.Refuse: _refuse,
        signals.BreakOff: _break_off,
        signals.Finish: _finish,
    }
    """How commands are carried out. Of the class: bound methods would make each run a cycle, left
    to the garbage collector with all that it holds."""
