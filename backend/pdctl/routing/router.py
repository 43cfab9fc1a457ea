"""decide(facts, board, loads) -> Route | Refusal: decode first, then prefill given decode.

Only proven pairs serve PD. What PD cannot serve, has no pair for, or is not worth a handoff, is
served whole and says why; a lack of room is a reason to wait, not to change the path. Full, absent
and suspect are told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pdctl.domain.handoff import Path
from pdctl.domain.ids import InstanceId
from pdctl.domain.table import RoutingTable, Target
from pdctl.domain.topology import Mode, Role, SloSpec
from pdctl.routing.facts import RequestFacts
from pdctl.routing.forecast import expected_s
from pdctl.routing.policy import Candidate, Chance, Choice, Policy

Loads = Mapping[str, Candidate]
"""What is open on each instance now; an instance without an entry is idle."""
Pair = tuple[str, str]
"""(prefill, decode)"""
Pairs = Sequence[tuple[Target, tuple[Target, ...]]]
"""Decode instances, each with the prefill instances that may serve it."""
CONDITIONAL = ("short_prompt", "prefill_busy", "slo")
"""Why a handoff that was possible was not worth it."""

NEAR = 0.6
"""Share of a bound on the time per token from which decode takes no more prompts for it: what it
shows is of answers that have ended, before those prompts came."""


@dataclass(frozen=True, slots=True)
class Board:
    """A routing table with its look-ups built once; one reference serves one request."""

    table: RoutingTable
    prefill_policy: Policy
    decode_policy: Policy
    decoders: tuple[Target, ...] = ()
    """Accepting instances that decode; they also serve whole requests in PD mode."""
    pairs: tuple[tuple[Target, tuple[Target, ...]], ...] = ()
    """Decode instances, each with the accepting prefill instances that have proved a handoff."""
    everyone: tuple[Target, ...] = ()
    """Every accepting instance: any of them can serve a request whole."""
    wants_history: bool = False
    """Something that decides weighs what instances were sent before, and how fast they were."""
    wants_events: bool = False
    """A policy weighs what instances hold by their own KV events."""


@dataclass(frozen=True, slots=True)
class Avoid:
    """What must not be chosen now: suspects, and what this very request has failed on."""

    instances: frozenset[str] = frozenset()
    pairs: frozenset[Pair] = frozenset()


@dataclass(frozen=True, slots=True)
class Route:
    """The way of one request; both ends are chosen, and reserved, before anything is sent."""

    table: RoutingTable
    path: Path
    path_reason: str
    decode: Target
    """The instance that answers the client, on every path."""
    decode_why: str
    prefill: Target | None = None
    prefill_why: str = ""

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """What the route reserves."""
        return tuple(one.id for one in self.targets)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The same, whole."""
        return (self.decode,) if self.prefill is None else (self.prefill, self.decode)

    @property
    def computer(self) -> Target:
        """Who computes the prompt."""
        return self.prefill or self.decode


@dataclass(frozen=True, slots=True)
class Refusal:
    """No route. `wait` says that one is likely when a leg ends."""

    status: int
    message: str
    wait: bool = False
    retry_after_s: int = 1
    reason: str = ""
    """In one low-cardinality word, where it is counted: "slo"."""
    held: bool = False
    """There is room, but not in time for it: others need not wait behind it."""


def board_of(table: RoutingTable, prefill_policy: Policy, decode_policy: Policy) -> Board:
    """Build the look-ups of a table."""
    accepting = {one.id: one for one in table.targets if one.accepts}
    prefills: dict[str, list[Target]] = {}
    for prefill_id, decode_id in table.pairs:
        prefill, decode = accepting.get(prefill_id), accepting.get(decode_id)
        if prefill and decode and prefill_id != decode_id and _can(prefill, decode):
            prefills.setdefault(decode_id, []).append(prefill)
    decoders = tuple(one for one in accepting.values() if one.role is not Role.PREFILL)
    return Board(
        table=table,
        prefill_policy=prefill_policy,
        decode_policy=decode_policy,
        decoders=decoders,
        pairs=tuple((one, tuple(prefills[one.id])) for one in decoders if one.id in prefills),
        everyone=tuple(accepting.values()),
        wants_events=any(
            getattr(one, "wants_events", False) for one in (prefill_policy, decode_policy)
        ),
        wants_history=table.limits.pd_min_prompt_tokens > 0
        or bool(table.limits.slo)
        or table.limits.admission != "off"
        or any(getattr(one, "wants_history", False) for one in (prefill_policy, decode_policy)),
    )


def _can(prefill: Target, decode: Target) -> bool:
    return prefill.role is not Role.DECODE and decode.role is not Role.PREFILL


@dataclass(frozen=True, slots=True)
class _Question:
    """All that one decision looks at."""

    facts: RequestFacts
    board: Board
    loads: Loads
    rng: Chance
    avoid: Avoid

    def roomy(self, targets: Iterable[Target]) -> list[Target]:
        """Those below their limit of open legs."""
        loads, limit = self.loads, self.board.table.limits.max_inflight_per_instance
        return [one for one in targets if (loads[one.id].legs if one.id in loads else 0) < limit]

    def choose(
        self, policy: Policy, targets: list[Target], *, pulls: bool = False
    ) -> tuple[Target, Choice] | None:
        """Ask a policy; `pulls`: the prompt's KV comes from elsewhere."""
        candidates = [self.candidate(one, pulls=pulls) for one in targets]
        choice = policy.choose(candidates, self.facts, self.rng)
        if choice is None:
            return None
        return next(one for one in targets if one.id == choice.id), choice

    def candidate(self, target: Target, *, pulls: bool = False) -> Candidate:
        """What a policy may weigh of `target`, for a leg that computes the prompt or pulls it."""
        return _candidate(self.facts, self.board, self.loads, target, pulls=pulls)

    def foretell(self, route: Route) -> float | None:
        """Seconds to the first token by this route; None while too little is measured."""
        return foretell(self.facts, self.board, self.loads, route)


def _candidate(
    facts: RequestFacts, board: Board, loads: Loads, target: Target, *, pulls: bool = False
) -> Candidate:
    known = loads.get(target.id) or Candidate(target.id)
    if not board.wants_history:
        return known
    missing = facts.prompt_tokens - known.cached
    return replace(known, pulls=missing) if pulls else replace(known, computes=missing)


def foretell(facts: RequestFacts, board: Board, loads: Loads, route: Route) -> float | None:
    """Seconds to the first token by this route, from now; None while too little is measured."""
    pulls = route.prefill is not None
    legs = {route.decode.id: _candidate(facts, board, loads, route.decode, pulls=pulls)}
    if route.prefill is not None:
        legs[route.prefill.id] = _candidate(facts, board, loads, route.prefill)
    others = [
        replace(loads[one.id], ahead=0)
        for one in board.everyone
        if one.id not in legs and one.id in loads
    ]
    expected = expected_s([*legs.values(), *others])
    return sum(expected[id_] for id_ in legs) if expected else None


def decide(
    facts: RequestFacts, board: Board, loads: Loads, rng: Chance, avoid: Avoid | None = None
) -> Route | Refusal:
    """Where this request goes now. Reserve what it says before anything else is decided."""
    question = _Question(facts, board, loads, rng, avoid or Avoid())
    if board.table.mode is Mode.CHUNKED:
        return _whole(question, Path.CHUNKED, "")
    if facts.blocker:
        return _whole(question, Path.AGGREGATED, facts.blocker)
    pairs = _usable_pairs(board, question.avoid)
    if not pairs:
        return _whole(question, Path.AGGREGATED, _why_no_pair(board, question.avoid))
    found = _short(question) or _unless_busy(question, _pd(question, pairs))
    slo = board.table.objective(facts.slo)
    if slo is None or isinstance(found, Refusal):
        return found
    if found.prefill is None:
        return _handed_over(question, found, slo, pairs)
    return _kept(question, found, slo)


def _usable_pairs(board: Board, avoid: Avoid) -> Pairs:
    """Nothing to avoid among them; fullness is not looked at yet."""
    if not avoid.instances and not avoid.pairs:
        return board.pairs
    usable = []
    for decode, ends in board.pairs:
        if decode.id in avoid.instances:
            continue
        left = tuple(
            prefill
            for prefill in ends
            if prefill.id not in avoid.instances and (prefill.id, decode.id) not in avoid.pairs
        )
        if left:
            usable.append((decode, left))
    return usable


def _why_no_pair(board: Board, avoid: Avoid) -> str:
    """One word for why PD mode has no pair for a request that PD could serve."""
    usable = [one for one in board.everyone if one.id not in avoid.instances]
    if all(one.role is Role.PREFILL for one in usable):
        return "no_decode"
    if all(one.role is Role.DECODE for one in usable):
        return "no_prefill"
    return "no_pair"


def _pd(question: _Question, pairs: Pairs) -> Route | Refusal:
    """Decode first, for it is the longer stay; then prefill among those proven with it."""
    board = question.board
    fit = {
        decode.id: roomy
        for decode, ends in pairs
        if question.roomy((decode,)) and (roomy := question.roomy(ends))
    }
    decoders = [decode for decode, _ in pairs if decode.id in fit]
    first = question.choose(board.decode_policy, decoders, pulls=True)
    if first is None:
        return _full(len(pairs))
    second = question.choose(board.prefill_policy, fit[first[0].id])
    if second is None:
        return _full(len(pairs))
    return Route(
        table=board.table,
        path=Path.PD,
        path_reason="",
        decode=first[0],
        decode_why=first[1].reason,
        prefill=second[0],
        prefill_why=second[1].reason,
    )


def _short(question: _Question) -> Route | None:
    """On a decode instance that has less to compute than a handoff is worth; None: hand over."""
    board, worth = question.board, question.board.table.limits.pd_min_prompt_tokens
    near = _usable(board.decoders, question.avoid) if worth else []
    if not any(question.candidate(one).computes < worth for one in near):
        return None
    chosen = question.choose(board.decode_policy, question.roomy(near))
    if chosen is None or (left := question.candidate(chosen[0]).computes) >= worth:
        return None
    why = f"{chosen[1].reason}; ~{left} tokens to compute, a handoff is for {worth} or more"
    return Route(board.table, Path.AGGREGATED, "short_prompt", chosen[0], why)


def _unless_busy(question: _Question, found: Route | Refusal) -> Route | Refusal:
    """Stay on decode when the prompt is computed there before prefill would even begin."""
    forecast = getattr(question.board.prefill_policy, "expected_s", None)
    if forecast is None or isinstance(found, Refusal) or found.prefill is None:
        return found
    here, there = question.candidate(found.decode), question.candidate(found.prefill)
    expected = forecast([here, replace(there, computes=0)])
    if not there.ahead or not expected or expected[here.id] > expected[there.id]:
        return found
    why = (
        f"{found.decode_why}; ~{expected[here.id] * 1000:.0f} ms to the first token without a "
        f"handoff, {there.id} has ~{there.ahead} tokens ahead, "
        f"~{expected[there.id] * 1000:.0f} ms of work"
    )
    return Route(question.board.table, Path.AGGREGATED, "prefill_busy", found.decode, why)


def _kept(question: _Question, found: Route, slo: SloSpec) -> Route:
    """On decode, when a handoff would come too late, this would not, and holds up nobody."""
    here = replace(found, prefill=None)
    late, soon, bound = question.foretell(found), question.foretell(here), slo.ttft_ms
    if bound is None or late is None or soon is None or not soon * 1000 <= bound < late * 1000:
        return found
    if _holds_up(question, found.decode, slo):
        return found
    why = (
        f"{found.decode_why}; ~{late * 1000:.0f} ms to the first token with a handoff, "
        f"~{soon * 1000:.0f} ms without one, {slo.name} allows {bound:g} ms"
    )
    return Route(question.board.table, Path.AGGREGATED, "slo", found.decode, why)


def _handed_over(question: _Question, found: Route, slo: SloSpec, pairs: Pairs) -> Route:
    """To prefill, when decode's own streams would be held up and a handoff is in time."""
    why = _holds_up(question, found.decode, slo)
    other = _pd(question, pairs) if why else found
    if other is found or isinstance(other, Refusal):
        return found
    late = question.foretell(other)
    if late is not None and slo.ttft_ms is not None and late * 1000 > slo.ttft_ms:
        return found
    return replace(other, prefill_why=f"{other.prefill_why}; {why}")


def _holds_up(question: _Question, decode: Target, slo: SloSpec) -> str:
    """Why the streams on `decode` would miss `slo` if it computed this prompt, in one go."""
    one = question.candidate(decode)
    if not one.legs or one.prefill_rate is None or one.step_s is None:
        return ""
    step, gap = one.step_s * 1000, (one.computes / one.prefill_rate + one.step_s) * 1000
    if slo.itl_p99_ms is not None and gap > slo.itl_p99_ms:
        words = f"~{one.computes} tokens would hold up the streams on {one.id} for ~{gap:.0f} ms"
        return f"{words}, {slo.name} allows {slo.itl_p99_ms:g} ms"
    if slo.tpot_ms is not None and step > NEAR * slo.tpot_ms:
        return f"{one.id} takes {step:.1f} ms a token already, {slo.name} allows {slo.tpot_ms:g} ms"
    return ""


def _whole(question: _Question, path: Path, reason: str) -> Route | Refusal:
    """On one instance: any in chunked mode, a decode instance (while there is one) in PD mode."""
    board, avoid = question.board, question.avoid
    usable = _usable(board.everyone, avoid)
    if path is Path.AGGREGATED:
        usable = _usable(board.decoders, avoid) or usable
    if not usable:
        return _none(board)
    chosen = question.choose(board.decode_policy, question.roomy(usable))
    if chosen is None:
        return _full(len(usable))
    return Route(board.table, path, reason, chosen[0], chosen[1].reason)


def _usable(targets: tuple[Target, ...], avoid: Avoid) -> list[Target]:
    return [one for one in targets if one.id not in avoid.instances]


def _full(count: int) -> Refusal:
    return Refusal(
        429, f"All {count} usable instances are at their limit of open requests.", wait=True
    )


def _none(board: Board) -> Refusal:
    """Nothing accepts, or all that accept are suspect."""
    if board.everyone:
        return Refusal(503, "Every instance is failing at the moment. Try again shortly.")
    return Refusal(503, "No instance is ready to serve requests.", retry_after_s=5)
