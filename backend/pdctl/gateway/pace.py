"""What one request's legs say of the pace of its instances, told while they run.

Tokens are the router's own estimates, also in rates: what is foretold with a rate is multiplied by
estimates again. How many an engine counts for each that is guessed is learned on the way.
"""

from __future__ import annotations

from pdctl.domain.table import Target
from pdctl.gateway.dispatcher import Dispatcher
from pdctl.gateway.ledger import Reservation
from pdctl.gateway.trace import Trace
from pdctl.routing.router import Route


class Pace:
    """Of one request; silent while nothing that decides asks for history."""

    __slots__ = ("_dispatcher", "_steps", "_trace")

    def __init__(self, dispatcher: Dispatcher, trace: Trace) -> None:
        self._dispatcher, self._trace = dispatcher, trace
        self._steps: Target | None = None

    @property
    def _asked(self) -> bool:
        board = self._dispatcher.board
        return board is not None and board.wants_history

    def prefilled(self, target: Target, reservation: Reservation | None) -> None:
        """The prefill leg, the newest, has ended well."""
        leg, trace = self._trace.legs[-1], self._trace
        if reservation is None or leg.done is None or not self._asked:
            return
        tokens = reservation.computes
        if trace.prompt and trace.cached is not None:  # the engine knows better
            tokens = trace.facts.prompt_tokens * (trace.prompt - trace.cached) // trace.prompt
        self._dispatcher.memory.of(target).prefilled(tokens, leg.sent, leg.done)

    def first_token(self, route: Route, reservation: Reservation | None) -> None:
        """The answer's first token is there."""
        leg, target = self._trace.legs[-1], route.decode
        if reservation is None:
            return
        reservation.computed(target.id)
        self._steps = target
        if leg.first_byte is None or not self._asked:  # not streamed: its last token is there, too
            return
        figures, now = self._dispatcher.memory.of(target), self._trace.monotonic()
        if leg.kind == "whole":
            figures.prefilled(reservation.computes, leg.sent, now)
        else:
            figures.pull.learn(self._trace.facts.prompt_tokens, now - leg.sent)

    def finished(self, tpot_ms: float | None, tokens: int | None) -> None:
        """The record is written."""
        if self._trace.prompt and self._asked:
            self._dispatcher.memory.counted(self._trace.facts, self._trace.prompt)
        if tpot_ms and tokens and self._steps is not None and self._asked:
            figures = self._dispatcher.memory.of(self._steps)
            figures.step.learn(tokens - 1, (tokens - 1) * tpot_ms / 1000)
