"""Whether a request is sent now, given the objective that it is routed by.

Law: only what is known to come too late is held back. An objective without a bound for the first
token, or an instance of which nothing is measured, holds back nobody; nor does a second attempt. An
instance with nothing to compute takes what comes: else figures that are too bad were never mended.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pdctl.domain.table import RoutingTable
from pdctl.routing.facts import RequestFacts
from pdctl.routing.router import Board, Loads, Refusal, Route, foretell

REASON = "slo"
_LONGEST_RETRY_S = 60


def patience_s(facts: RequestFacts, table: RoutingTable) -> float:
    """How long a request may wait for its place: not past the first token that is allowed it."""
    limits, bound = table.limits, _bound_ms(facts, table)
    return limits.queue_timeout_s if bound is None else min(limits.queue_timeout_s, bound / 1000)


def too_long(facts: RequestFacts, table: RoutingTable, waited_s: float) -> Refusal:
    """The answer to a request that has waited for as long as it may."""
    bound, slo = _bound_ms(facts, table), table.objective(facts.slo)
    if bound is None or slo is None or waited_s * 1000 < bound:
        return Refusal(429, f"No instance had room within {waited_s:g} s.", wait=True)
    words = f"It waited {waited_s:g} s, and the SLO {slo.name} allows no more to the first token."
    return Refusal(429, words, wait=True, reason=REASON)


def admit(
    facts: RequestFacts, board: Board, loads: Loads, route: Route, waited_s: float = 0.0
) -> Route | Refusal:
    """The route, with what is expected of it, or why it is not taken now."""
    slo, bound = board.table.objective(facts.slo), _bound_ms(facts, board.table)
    expected = foretell(facts, board, loads, route) if bound is not None else None
    busy = loads.get(route.computer.id)
    if slo is None or bound is None or expected is None or busy is None or not busy.ahead:
        return route
    total = (waited_s + expected) * 1000
    words = (
        f"~{total:.0f} ms to the first token expected, the SLO {slo.name} allows {bound:.10g} ms"
    )
    if total <= bound:
        return replace(route, decode_why=f"{route.decode_why}; {words}")
    idle = {id_: replace(one, ahead=0) for id_, one in loads.items()}
    best = foretell(facts, board, idle, route)
    hopes = best is not None and (waited_s + best) * 1000 <= bound
    waits = hopes and board.table.limits.admission == "queue"
    if not hopes:
        words += ", and with nothing before it, it would be late as well"
    pause = min(_LONGEST_RETRY_S, max(1, math.ceil((total - bound) / 1000)))
    return Refusal(429, f"{words}.", waits, pause, REASON, held=waits)


def _bound_ms(facts: RequestFacts, table: RoutingTable) -> float | None:
    """The time to the first token that is enforced; None: none is."""
    slo = None if table.limits.admission == "off" else table.objective(facts.slo)
    return None if slo is None else slo.ttft_ms
