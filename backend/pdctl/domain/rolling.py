"""Replacing what runs old flags: what has to be there before one may go, and what stops it. Pure.

Law: the new one first where a slot is free (up to the pool's surge), the old one first where none
is. The last of a role, and the last pair that hands over, stay until others take their place,
unless nothing is free for those. A new one that fails stops it: the old ones serve on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from pdctl.domain import holding, seats
from pdctl.domain.actions import Launch
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Refused
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.pair_book import PairBook
from pdctl.domain.placement import Holding, place, side_channels
from pdctl.domain.topology import Mode, PoolSpec, Role

COMING = frozenset(
    {Phase.PENDING, Phase.STARTING, Phase.LOADING, Phase.WARMING, Phase.PROBING, Phase.BACKOFF,
     Phase.UNKNOWN}
)  # fmt: skip
REPLACED = "a new one has taken its place"
_SERVING = frozenset({Phase.READY, Phase.UNKNOWN})
_BROKEN = frozenset({Phase.BACKOFF, Phase.FAILED})


class Draft(holding.Draft, Protocol):
    """The plan in the making, as far as a rolling change needs it."""

    by_id: dict[InstanceId, Instance]
    pools: dict[str, PoolSpec]
    pairs: PairBook
    broken: Sequence[Instance]
    reflagged: set[str]
    outdated: set[str]
    renewed: set[str]
    """Pools that an operator has renewed as a whole."""
    rosters: dict[str, seats.Roster]
    relieved: set[str]
    """Old ones whose seats new ones have: they go when those are ready."""
    held: list[Holding]
    starved: set[str]
    """Pools that wanted a slot and got none."""
    taken: set[InstanceId]
    breaks: dict[InstanceId, str]
    hashes: dict[str, str]
    """What the ends of a handoff must share, by pool."""
    faster: dict[tuple[Role, int], bool]
    """(role, count of READY ones): it is ahead of its peer in a rolling change."""
    alone: dict[tuple[str, str], list[InstanceId]]
    """(pool, compat of old ones): the pair of new ones that they wait for."""
    staying: dict[tuple[str, str], list[str]]
    """(pool, until when or because of what): old ones whose turn has not come."""

    def stay(self, one: Instance, what: str) -> None:
        """Note down what an old one waits for."""

    def take_away(self, one: Instance, why: Reason, message: str) -> None:
        """Drain what may have streams; stop the rest at once."""


def relieved(members: Iterable[Instance], pool: PoolSpec | None, draft: Draft) -> set[str]:
    """The old ones that hold no seat, because a new one beyond the pool's size has it."""
    if pool is None or draft.closing:
        return set()
    able = [one for one in members if seats.can_sit(one, draft.outdated)]
    old = [one for one in able if one.phase in _SERVING and one.id in draft.outdated]
    count = min(len(able) - pool.size, pool.surge, len(old))
    leaving = draft.desired.orders.leaving
    old.sort(key=lambda one: seats.order(one, draft.outdated, leaving), reverse=True)
    return {one.id for one in old[: max(count, 0)]}


def surge(draft: Draft, pool: PoolSpec) -> None:
    """Start new ones beside old ones that still serve, as far as slots are free."""
    roster = draft.rosters[pool.name]
    old = [one for one in roster.kept if one.phase is Phase.READY and _may_double(draft, pool, one)]
    room = pool.surge - max(len(beyond(draft, pool.name)), len(unready(roster)) + roster.missing)
    if not old or room <= 0 or pool.name in draft.starved:
        return
    if failing(draft, old[0]) or _ahead(draft, old[0]):
        return
    taken = {*draft.by_id, *(one.id for one in draft.actions if isinstance(one, Launch))}
    for one in old[-room:]:
        slot = place(draft.desired, pool, draft.held)
        if isinstance(slot, Refused):
            draft.starved.add(pool.name)
            return
        id_ = seats.free_id(pool.name, taken)
        taken.add(id_)
        draft.held.append(Holding(id_, pool.name, slot, side_channels(draft.desired, pool)))
        draft.actions.append(Launch(id_, pool.name, slot))
        draft.kept.discard(one.id)
        draft.relieved.add(one.id)
        left = tuple(other for other in draft.rosters[pool.name].kept if other.id != one.id)
        missing = draft.rosters[pool.name].missing + 1
        draft.rosters[pool.name] = replace(draft.rosters[pool.name], kept=left, missing=missing)


def _may_double(draft: Draft, pool: PoolSpec, one: Instance) -> bool:
    """True when another may stand in for it, under an id of its own.

    A change of flags and the restart of a pool get new ids where there is room. One of several
    that is restarted by name keeps its own.
    """
    if one.id in draft.reflagged:
        return True
    return one.id in draft.outdated and (pool.name in draft.renewed or pool.size == 1)


def beyond(draft: Draft, pool: str) -> list[Instance]:
    """Members of `pool` that hold no seat and still hold a slot."""
    return [
        one
        for one in draft.observed
        if one.pool == pool and one.id not in draft.kept and one.phase is not Phase.STOPPED
    ]


def unready(roster: seats.Roster) -> list[Instance]:
    """Those in their seats that do not serve yet, an operator's held ones apart."""
    return [one for one in roster.kept if one.phase is not Phase.READY and not holding.is_held(one)]


def is_broken(one: Instance) -> bool:
    """True when its last start failed, and not by a port that somebody else took."""
    return one.phase in _BROKEN and one.reason is not Reason.PORT_RACE


def failing(draft: Draft, old: Instance) -> Instance | None:
    """A new one that fails by the flags for which `old` is to be replaced."""
    for one in draft.broken:
        if one.id in draft.outdated or one.id not in draft.kept:
            continue
        same = one.pool == old.pool or one.compat != old.compat
        if same or any(draft.by_id[InstanceId(id_)].pool == one.pool for id_ in draft.outdated):
            return one
    return None


def _ahead(draft: Draft, one: Instance) -> bool:
    """True when the other role has to catch up first.

    While old hands over to old only, the old ones of both roles go in proportion: else the last
    old prefill would have to serve all old decodes.
    """
    desired = draft.desired
    if desired.mode is not Mode.PD or one.role is Role.BOTH:
        return False
    if one.compat == draft.hashes[one.pool]:
        return False
    key = (one.role, len(draft.ready))  # asked for every old one, and it looks at all of them
    if key not in draft.faster:
        draft.faster[key] = _is_faster(draft, one.role)
    return draft.faster[key]


def _is_faster(draft: Draft, role: Role) -> bool:
    """True when more of `role` are new, in proportion, than of its peer."""
    desired = draft.desired
    peer = Role.DECODE if role is Role.PREFILL else Role.PREFILL
    left = {Role.PREFILL: 0, Role.DECODE: 0, Role.BOTH: 0}
    for id_ in draft.outdated & draft.ready:
        left[draft.by_id[InstanceId(id_)].role] += 1
    size = {each: sum(p.size for p in desired.pools if p.role is each) for each in left}
    return left[role] * size[peer] < left[peer] * size[role]


def roll(draft: Draft, one: Instance, waits: list[Instance | Launch]) -> None:
    """Replace a kept instance that runs old flags, when its turn has come; else say why not."""
    if one.phase in (Phase.PENDING, Phase.UNKNOWN):
        return  # not started yet, or not seen yet
    if one.phase is not Phase.READY:
        draft.take_away(one, *why(draft, one))
        return
    if broken := failing(draft, one):
        draft.stay(one, _failed(broken))
    elif waits:
        draft.stay(one, f"until {_names(waits)} is ready")
    elif coming := _alone(draft, one):
        draft.stay(one, f"until {' and '.join(coming)} hand over")
    elif _ahead(draft, one):
        draft.stay(one, "until the other role has caught up")
    elif leaving := _makes_room(draft, one):
        draft.stay(one, f"until {_names(leaving)} has gone")
    elif may_go(draft, one):
        if _may_double(draft, draft.pools[one.pool], one):
            draft.breaks.setdefault(one.id, _no_room(draft, one))
        draft.take_away(one, *why(draft, one))
        waits.append(one)


def _alone(draft: Draft, old: Instance) -> list[InstanceId]:
    """The pair to wait for, while no new one of the pool of `old` hands over yet."""
    if draft.desired.mode is not Mode.PD:
        return []
    key = (old.pool, old.compat)
    if key not in draft.alone:  # asked for every old one, and it looks at every pair
        draft.alone[key] = _look_for_pairs(draft, old)
    return draft.alone[key]


def _look_for_pairs(draft: Draft, old: Instance) -> list[InstanceId]:
    new = {
        id_
        for id_ in draft.ready - draft.outdated
        if draft.by_id[id_].pool == old.pool and draft.by_id[id_].compat != old.compat
    }
    if not new or any(
        (one, other) in draft.pairs.proved or (other, one) in draft.pairs.proved
        for one in new
        for other in draft.ready
    ):
        return []
    return _pair_to_come(draft, old)


def _failed(one: Instance) -> str:
    state = "is given up" if one.phase is Phase.FAILED else "failed and is tried again"
    return f"because {one.id} {state} ({one.message}); `pdctl undo` goes back to the old flags"


def _names(some: Sequence[Instance | Launch]) -> str:
    return ", ".join(one.id for one in some)


def stays(draft: Draft) -> list[str]:
    """What keeps old ones where they are, one sentence for all that it keeps."""
    said = []
    for (pool, what), ids in draft.staying.items():
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        old = draft.reflagged.issuperset(ids)
        verb = ("run" if len(ids) > 1 else "runs") if old else ("are" if len(ids) > 1 else "is")
        which = "old flags" if old else "to be renewed"
        stay = "stay" if len(ids) > 1 else "stays"
        said.append(f"{pool}: {shown} {verb} {which} and {stay} {what}")
    return said


def _makes_room(draft: Draft, one: Instance) -> list[Instance]:
    """Those on their way out whose slot the replacement of `one` can have; it waits for them."""
    pool = draft.pools[one.pool]
    if pool.surge == 0 or not _may_double(draft, pool, one):
        return []
    if mine := beyond(draft, pool.name):
        return mine
    leaving = [x for x in draft.observed if x.id not in draft.kept and x.phase is not Phase.STOPPED]
    owners = {other.id for other in leaving}
    free = [holder for holder in draft.held if holder.owner not in owners]
    if not leaving or isinstance(place(draft.desired, pool, free), Refused):
        return []
    return leaving


def why(draft: Draft, one: Instance) -> tuple[Reason, str]:
    """Why it is replaced by itself."""
    if one.id in draft.reflagged:
        return Reason.OUTDATED, "its launch flags are not the desired ones any more"
    return Reason.OUTDATED, "an operator asked for a fresh start of it"


def replaced(draft: Draft, one: Instance) -> tuple[Reason, str] | None:
    """Why it leaves, if a new one serves; without one it is only more than its pool wants."""
    new = draft.ready - draft.outdated
    if any(draft.by_id[InstanceId(id_)].pool == one.pool for id_ in new):
        return Reason.SCALE_DOWN, REPLACED
    return None


def may_leave(draft: Draft, one: Instance) -> bool:
    """True when an old one whose seat a new one has may go: as many as new ones are ready."""
    roster = draft.rosters[one.pool]
    waits = unready(roster)
    if broken := failing(draft, one):
        draft.stay(one, _failed(broken))
        return False
    if one.phase is not Phase.READY:
        return False
    if coming := _alone(draft, one):
        draft.stay(one, f"until {' and '.join(coming)} hand over")
        return False
    here = [x for x in draft.relieved if draft.by_id[InstanceId(x)].pool == one.pool]
    if len(here) <= len(waits) + roster.missing:
        return False
    if not may_go(draft, one):
        return False
    draft.relieved.discard(one.id)
    return True


def may_go(draft: Draft, one: Instance) -> bool:
    """True when a READY instance may go; says why when it may not, or when it must."""
    alone = draft.strands(one)
    if not alone and not _unpairs(draft, one):
        return True
    coming = _relief(draft, one) if alone else _pair_to_come(draft, one)
    last = "instance" if alone else "one that hands over"
    role = one.role if draft.desired.mode is Mode.PD else "serving"
    if not coming and (not alone or _stuck(draft, one)):
        coming = _all_that_will_serve(draft, one) if alone else []
        if not coming:
            draft.breaks[one.id] = _no_room(draft, one)
            return True
    waits = ", ".join(coming) or "another one"
    draft.notes.append(
        f"{one.id} stays until {waits} is ready: it is the last {role} {last}"
    )  # fmt: skip
    return False


def _stuck(draft: Draft, one: Instance) -> bool:
    """True when no other can be started before `one` goes."""
    pool = draft.pools.get(one.pool)
    return bool(draft.starved) or (pool is not None and pool.surge == 0)


def _no_room(draft: Draft, one: Instance) -> str:
    pool = draft.pools.get(one.pool)
    if pool is not None and pool.surge == 0:
        return f"{pool.name} may not grow while it is replaced (surge = 0)"
    return "nothing is free for the one that replaces it"


def _unpairs(draft: Draft, one: Instance) -> bool:
    """True when the last pair that hands over now would go with `one`."""
    if draft.closing or draft.desired.mode is not Mode.PD or one.id not in draft.outdated:
        return False
    found = False
    for ends in draft.pairs.proved:
        if draft.ready.issuperset(ends):
            if one.id not in ends:
                return False
            found = True
    return found


def _pair_to_come(draft: Draft, one: Instance) -> list[InstanceId]:
    """The ends of a pair with the desired flags that is there soon without `one` going."""
    fresh = {other.id: draft.pools[other.pool] for other in _fresh(draft) if other.id != one.id}
    new = (action for action in draft.actions if isinstance(action, Launch))
    fresh |= {action.id: draft.pools[action.pool] for action in new}
    for prefill, pool in fresh.items():
        if pool.role is Role.DECODE:
            continue
        for decode, other in fresh.items():
            fits = draft.hashes[pool.name] == draft.hashes[other.name]
            if fits and other.role is not Role.PREFILL and decode != prefill:
                return [prefill, decode]
    return []


def _fresh(draft: Draft) -> Iterable[Instance]:
    """Those that have the desired flags, or will have as soon as they are back."""
    launched = {action.id for action in draft.actions if isinstance(action, Launch)}
    for one in draft.observed:
        if one.id in draft.taken or (one.phase in seats.LEFT and one.reason in seats.RETURNING):
            if one.phase is not Phase.STOPPED or one.id in launched:
                yield one
        elif one.id in draft.kept - draft.outdated and one.phase in {Phase.READY, *COMING}:
            yield one


def _relief(draft: Draft, last: Instance) -> list[InstanceId]:
    """Others of its role that come."""
    return [
        other.id
        for other in draft.observed
        if other.id in draft.kept and serves(other, last.role) and _is_coming(draft, other)
    ]


def _all_that_will_serve(draft: Draft, last: Instance) -> list[InstanceId]:
    """While `last` alone serves at all: the others, of any role, that hold a slot and come."""
    if draft.ready - {last.id}:
        return []
    launched = {action.id for action in draft.actions if isinstance(action, Launch)}
    return [
        other.id
        for other in draft.observed
        if (other.id in draft.kept or other.id in draft.taken)
        and other.id != last.id
        and (other.phase is not Phase.STOPPED or other.id in launched)
    ]


def _is_coming(draft: Draft, one: Instance) -> bool:
    """On its way to READY, or on its way out in order to be started again."""
    if one.phase in COMING or one.id in draft.taken:
        return True
    return one.phase in seats.LEFT and one.reason in seats.RETURNING


def serves(one: Instance, role: Role) -> bool:
    """True when it can take work of `role`."""
    return Role.BOTH in (one.role, role) or one.role is role
