"""Which prefill x decode pairs there are, which are due for a probe, and who waits for one: pure.

Law: a pair's state speaks of two processes, not of two names; a restart of either end makes it
untried. A pair that fails is retried later and condemns neither of its ends. Ends that may not pair
never do: old with old and new with new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pdctl.domain.actions import ProbePair
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Role

OK, UNTRIED, PROBING, FAILING = "ok", "untried", "probing", "failing"
QUARANTINED = "quarantined"
"""Its probe worked but real requests did not; the next probe that works puts it back."""
INCOMPATIBLE = "incompatible"
"""Its ends were launched so that vLLM would refuse the handoff: neither probed nor routed."""
PAUSED = "paused"
"""Only ever shown: it hands over as soon as both of its ends serve again."""
STATES = (OK, PAUSED, UNTRIED, PROBING, FAILING, QUARANTINED, INCOMPATIBLE)
PROBEABLE = frozenset({Phase.PROBING, Phase.READY})
"""Phases in which an instance can take part in a probe."""
_PEERS = {
    Role.PREFILL: (Role.DECODE, Role.BOTH),
    Role.DECODE: (Role.PREFILL, Role.BOTH),
    Role.BOTH: tuple(Role),
}
_DOING = {Phase.BACKOFF: "down, to be started again", Phase.UNKNOWN: "not answering"}


def sync(instances: Sequence[Instance], pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """One pair for every prefill x decode of existing instances; known states are kept."""
    here = [one for one in instances if one.phase is not Phase.STOPPED]
    return tuple(match(here, here, {(pair.prefill, pair.decode): pair for pair in pairs}))


def match(
    some: Iterable[Instance],
    others: Iterable[Instance],
    known: Mapping[tuple[InstanceId, InstanceId], Pair],
) -> list[Pair]:
    """The pairs that `some` are the prefill end of, with `others`; `known` states are kept."""
    decodes = [
        (one, one.id, one.generation, one.compat) for one in others if one.role is not Role.PREFILL
    ]
    found: list[Pair] = []
    for prefill in some:
        if prefill.role is Role.DECODE:
            continue
        id_, generation, compat = prefill.id, prefill.generation, prefill.compat
        for decode, its_id, its_generation, its_compat in decodes:  # thousands in every plan
            if its_id == id_:
                continue
            pair = known.get((id_, its_id))
            fits = compat == its_compat
            if (
                pair is None
                or pair.generations != (generation, its_generation)
                or fits is (pair.state == INCOMPATIBLE)
            ):
                pair = _fresh(prefill, decode, fits=fits)
            found.append(pair)
    return found


def _fresh(prefill: Instance, decode: Instance, *, fits: bool) -> Pair:
    state, message = UNTRIED, ""
    if not fits:
        state = INCOMPATIBLE
        hashes = f"{prefill.compat or 'unknown'}, {decode.compat or 'unknown'}"
        message = f"its ends differ in flags that a handoff needs to agree ({hashes})"
    return Pair(
        prefill.id, decode.id, state, message, generations=(prefill.generation, decode.generation)
    )


def absent(instances: Iterable[Instance]) -> dict[InstanceId, str]:
    """Instances that take part in no handoff now, and what they do instead, in words."""
    return {
        one.id: f"{one.id} is {_DOING.get(one.phase, one.phase.value)}"
        for one in instances
        if one.phase not in PROBEABLE
    }


def shown(pair: Pair, away: Mapping[InstanceId, str]) -> tuple[str, str]:
    """State and message as people see them: a proved pair does not stand without both ends."""
    missing = [away[end] for end in (pair.prefill, pair.decode) if end in away]
    if pair.state == OK and missing:
        return PAUSED, " and ".join(missing)
    return pair.state, pair.message


def waiting(by_id: Mapping[InstanceId, Instance], pairs: Iterable[Pair]) -> set[InstanceId]:
    """Ends of pairs of two live instances that have not been tried yet: READY waits for them."""
    return {
        end
        for pair in pairs
        if pair.state in (UNTRIED, PROBING)
        and by_id[pair.prefill].phase in PROBEABLE
        and by_id[pair.decode].phase in PROBEABLE
        for end in (pair.prefill, pair.decode)
    }


def lonely(instances: Iterable[Instance]) -> Iterator[tuple[Instance, str]]:
    """Live instances without a live peer, and the role that such a peer would have, in words."""
    live = [one for one in instances if one.phase in PROBEABLE]
    count = Counter((one.role, one.compat) for one in live)
    for one in live:
        peers = _PEERS[one.role]
        itself = one.role in peers
        if sum(count[role, one.compat] for role in peers) == itself:
            yield one, "second" if itself else str(peers[0])


def due(by_id: Mapping[InstanceId, Instance], pairs: Iterable[Pair], now: float) -> list[ProbePair]:
    """Probes to start now: never two at a time on one prefill, untried pairs first."""
    pairs = list(pairs)
    busy = {pair.prefill for pair in pairs if pair.state == PROBING}
    chosen: list[ProbePair] = []
    place = {id_: at for at, id_ in enumerate(by_id)}
    for pair in sorted(
        (pair for pair in pairs if _is_due(pair, now)),
        key=lambda pair: (pair.state != UNTRIED, place[pair.prefill], place[pair.decode]),
    ):
        ends = (by_id[pair.prefill].phase, by_id[pair.decode].phase)
        if pair.prefill not in busy and PROBEABLE.issuperset(ends):
            busy.add(pair.prefill)
            chosen.append(ProbePair(pair.prefill, pair.decode))
    return chosen


def _is_due(pair: Pair, now: float) -> bool:
    if pair.state == PROBING:
        return False
    return pair.state == UNTRIED or (pair.retry_at is not None and pair.retry_at <= now)
