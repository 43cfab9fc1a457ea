"""What an operator asks of a running fleet, and what the desired fleet becomes by it: pure.

Law: a change that cannot be meant (an unknown name, the last of a role) is refused in a sentence
with the next step; it is never half applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from pdctl.domain import live
from pdctl.domain.diff import words
from pdctl.domain.digest import digest
from pdctl.domain.errors import OperatorError
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.moving import can_take_over
from pdctl.domain.topology import FleetSpec, Mode, Orders, PoolSpec, Role, fingerprint

MAX_SIZE = 1000
"""Largest size of a pool that is understood: beyond it a digit was typed twice."""
_LEFT = frozenset({Phase.DRAINING, Phase.STOPPING, Phase.STOPPED})
_FOR_GOOD = frozenset({Reason.SCALE_DOWN, Reason.SHUTDOWN})


@dataclass(frozen=True, slots=True)
class Change:
    """One change, as asked for. Names are checked when it meets a fleet."""

    mode: Mode | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    """(pool, or a role that one pool has; its new size)."""
    fleet: FleetSpec | None = None
    """A whole other fleet, from a file; `mode` and `sizes` come on top of it."""
    restart: tuple[str, ...] = ()
    """Instances or pools, one instance of a pool at a time."""
    drain: tuple[str, ...] = ()
    undrain: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """Instances that go for good: their pools shrink by them."""
    move: tuple[tuple[str, str], ...] = ()
    """(instance, the pool or role that it shall belong to)."""
    router: tuple[tuple[str, live.Value], ...] = ()
    """(one of `live.LIVE`, its new value)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change, or a part of it, cannot be."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """What came of a change on paper."""

    fleet: FleetSpec
    said: tuple[str, ...] = ()
    """The change in words, for people and for the log."""
    refused: tuple[Refusal, ...] = ()


def parse(words: Iterable[str]) -> Change:
    """The change that words like `prefill=2 mode=chunked` ask for; OperatorError when unclear."""
    mode: Mode | None = None
    sizes: dict[str, int] = {}
    router: dict[str, live.Value] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name or not value:
            raise OperatorError(
                "bad_change",
                f"{word!r} is not a change.",
                "Write POOL=SIZE, mode=pd|chunked, or a setting of the router.",
            )
        if name == "mode":
            mode = _mode(value)
        elif name in live.LIVE or "_" in name:
            router[name] = live.read(name, value)
        elif name in sizes:
            raise OperatorError("bad_change", f"{name} is given twice.", "Say its size once.")
        else:
            sizes[name] = _size(name, value)
    return Change(mode=mode, sizes=tuple(sizes.items()), router=tuple(router.items()))


def _mode(value: str) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        known = [str(mode) for mode in Mode]
        raise OperatorError(
            "bad_change", f"There is no mode {value!r}.", _meant(value, known, "Modes")
        ) from None


def _size(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()) or int(value) > MAX_SIZE:
        raise OperatorError(
            "bad_change",
            f"{value!r} is no size for {name}.",
            f"Write a whole number from 0 to {MAX_SIZE}, as in {name}=2.",
        )
    return int(value)


def apply_to(change: Change, desired: FleetSpec, observed: Sequence[Instance]) -> Changed:
    """The fleet that is desired after `change`; `desired` again where it is refused."""
    made = _Making(desired, {one.id: one for one in observed})
    made.take_file(change)
    made.take_sizes(change)
    made.take_mode(change)
    made.take_router(change)
    for id_ in change.drain:
        made.drain(id_)
    for id_ in change.undrain:
        made.undrain(id_)
    for name in change.restart:
        made.restart(name)
    for id_ in change.stop:
        made.stop(id_)
    for id_, to in change.move:
        made.move(id_, to)
    made.check_roles()
    fleet = made.fleet if not made.refused else desired
    return Changed(fleet, tuple(made.said), tuple(dict.fromkeys(made.refused)))


@dataclass(slots=True)
class _Making:
    """One desired fleet in the making; lives for one call."""

    before: FleetSpec
    observed: dict[InstanceId, Instance]
    fleet: FleetSpec = field(init=False)
    said: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    sized: set[str] = field(default_factory=set)
    """Pools whose size the change names."""
    shrunk: list[str] = field(default_factory=list)
    """Instances by which a pool shrinks."""

    def __post_init__(self) -> None:
        self.fleet = replace(self.before, orders=current(self.before.orders, self.observed))

    def refuse(self, code: str, message: str, hint: str = "") -> None:
        self.refused.append(Refusal(code, message, hint))

    def order(self, **changes: object) -> None:
        orders = replace(self.fleet.orders, **changes)  # type: ignore[arg-type]
        self.fleet = replace(self.fleet, orders=orders)

    def take_file(self, change: Change) -> None:
        if change.fleet is None:
            return
        now, stored = self.fleet, change.fleet.revision > 0
        new = replace(
            change.fleet, revision=now.revision, file_mode=now.file_mode,
            file_digest=now.file_digest,
            applied_digest=now.applied_digest if stored else digest(change.fleet),
            source=now.source, orders=now.orders,
        )  # fmt: skip
        for what in _fixed(now, new):
            self.refuse(
                "needs_restart",
                f"{what} cannot change while the fleet runs.",
                "Stop `pdctl serve` and start it with the new file.",
            )
        self.said += words(now, new)
        self.fleet = new

    def take_sizes(self, change: Change) -> None:
        for name, size in change.sizes:
            if (pool := self.pool(name)) is not None:
                self.sized.add(pool.name)
                self.resize(pool, size)

    def take_mode(self, change: Change) -> None:
        if change.mode is not None and change.mode is not self.fleet.mode:
            self.said.append(f"mode {self.fleet.mode} -> {change.mode}")
            self.fleet = replace(self.fleet, mode=change.mode)

    def take_router(self, change: Change) -> None:
        try:
            router, said = live.switched(self.fleet.router, change.router)
        except OperatorError as error:
            self.refuse(error.code, error.message, error.hint)
            return
        self.said += said
        self.fleet = replace(self.fleet, router=router)

    def drain(self, id_: str) -> None:
        one = self.find(id_)
        if one is None or one.id in self.fleet.orders.drained:
            return
        if one.phase in _LEFT and one.reason in _FOR_GOOD:
            self.refuse("already_stopping", f"{id_} is {one.phase} already, and leaves for good.")
            return
        self.said.append(f"drain {id_}")
        self.order(drained=(*self.fleet.orders.drained, one.id))

    def undrain(self, id_: str) -> None:
        one, drained = self.find(id_), self.fleet.orders.drained
        if one is None:
            return
        if one.id in drained:
            self.said.append(f"undrain {id_}")
            self.order(drained=tuple(other for other in drained if other != one.id))
        elif one.phase in _LEFT and one.reason in _FOR_GOOD:
            self.refuse(
                "not_drained",
                f"{id_} is {one.phase} because {one.message or 'its pool shrinks'}.",
                f"Make {one.pool} larger to bring it back.",
            )

    def restart(self, name: str) -> None:
        one = self.observed.get(InstanceId(name))
        if one is not None and one.phase in _LEFT:
            self.refuse("already_stopping", f"{name} is {one.phase} already.", "Wait for it.")
        elif one is not None:
            self.said.append(f"restart {name}")
            self.renew([one])
        elif (pool := self.pool(name, or_instance=True)) is not None:
            members = [one for one in self.observed.values() if one.pool == pool.name]
            count = "1 instance" if len(members) == 1 else f"{len(members)} instances"
            few = "one" if pool.surge < 2 else str(pool.surge)
            self.said.append(f"restart {pool.name}, {few} at a time ({count})")
            self.renew([one for one in members if one.phase not in _LEFT])

    def renew(self, members: Sequence[Instance]) -> None:
        starts = [(one.id, one.generation) for one in members]
        self.order(renew=tuple(dict.fromkeys([*self.fleet.orders.renew, *starts])))

    def stop(self, id_: str) -> None:
        if (one := self.leave(id_)) is None or (pool := self.fleet.pool(one.pool)) is None:
            return
        self.said.append(f"stop {id_}")
        if pool.name not in self.sized:
            self.resize(pool, pool.size - 1)

    def move(self, id_: str, to: str) -> None:
        target = self.pool(to)
        if target is None or (one := self.find(id_)) is None or one.pool == target.name:
            return
        source = self.fleet.pool(one.pool)
        if source is None or not (self.hand_over(one, target) or self.leave(id_)):
            return
        self.resize(source, source.size - 1)
        self.resize(target, target.size + 1)

    def hand_over(self, one: Instance, target: PoolSpec) -> bool:
        """Move the process itself, where it runs what the other pool would; False: it cannot."""
        if not can_take_over(self.fleet, one, target):
            self.said.append(
                f"move {one.id} to {target.name}: it leaves, and {target.name} starts one of its "
                f"own ({_why_anew(self.fleet, one, target)})"
            )
            return False
        if one.phase is Phase.DRAINING and one.reason in _FOR_GOOD:
            return False
        self.said.append(f"move {one.id} to {target.name}: the same process, nothing is loaded")
        self.shrunk.append(one.id)
        others = [order for order in self.fleet.orders.moved if order[0] != one.id]
        self.order(moved=(*others, (one.id, one.generation, target.name)))
        return True

    def leave(self, id_: str) -> Instance | None:
        """Send exactly this one away; None when it cannot be, or is on its way already."""
        one = self.find(id_)
        if one is None:
            return None
        if one.phase in _LEFT and one.reason in _FOR_GOOD:
            self.refuse("already_stopping", f"{id_} is {one.phase} already.")
            return None
        key = (one.id, one.generation)
        if key in self.fleet.orders.leaving:
            return None
        self.shrunk.append(id_)
        self.order(leaving=(*self.fleet.orders.leaving, key))
        return one

    def resize(self, pool: PoolSpec, size: int) -> None:
        if size > MAX_SIZE or size < 0:
            self.refuse("bad_size", f"{size} is no size for {pool.name}.")
        elif size != pool.size:
            self.said.append(f"{pool.name} {pool.size} -> {size}")
            pools = tuple(
                replace(one, size=size) if one.name == pool.name else one
                for one in self.fleet.pools
            )
            self.fleet = replace(self.fleet, pools=pools)

    def check_roles(self) -> None:
        """Taking away one instance never means giving up its role: that is asked for as a size."""
        for id_ in self.shrunk:
            one = self.observed[InstanceId(id_)]
            pool = self.fleet.pool(one.pool)
            if pool is None or pool.name in self.sized:
                continue
            roles = (one.role, Role.BOTH) if self.fleet.mode is Mode.PD else tuple(Role)
            if not any(other.size for other in self.fleet.pools if other.role in roles):
                what = f"{one.role} instance" if self.fleet.mode is Mode.PD else "instance"
                self.refuse(
                    "last_of_role",
                    f"{id_} is the last {what}.",
                    f"If none is what you want, ask for {pool.name}=0.",
                )

    def find(self, id_: str) -> Instance | None:
        one = self.observed.get(InstanceId(id_))
        if one is None:
            known = list(self.observed)
            hint = _meant(id_, known, "Instances")
            self.refuse("no_such_instance", f"There is no instance {id_!r}.", hint)
        return one

    def pool(self, name: str, *, or_instance: bool = False) -> PoolSpec | None:
        """By name, or by role where one pool has it."""
        if (pool := self.fleet.pool(name)) is not None:
            return pool
        same = [pool for pool in self.fleet.pools if pool.role == name]
        if len(same) == 1:
            return same[0]
        known = [pool.name for pool in self.fleet.pools]
        if same:
            names = ", ".join(pool.name for pool in same)
            self.refuse("which_pool", f"More than one pool is {name}: {names}.", "Name the pool.")
        elif or_instance:
            hint = _meant(name, [*self.observed, *known], "Instances and pools")
            self.refuse("no_such_instance", f"{name!r} is neither instance nor pool.", hint)
        else:
            hint = _meant(name, known, "Pools")
            self.refuse("no_such_pool", f"There is no pool {name!r}.", hint)
        return None


def current(orders: Orders, observed: dict[InstanceId, Instance]) -> Orders:
    """The orders that still name something: not those about what has left meanwhile."""
    starts = {(one.id, one.generation) for one in observed.values()}
    here = {
        one.id for one in observed.values() if not (one.phase in _LEFT and one.reason in _FOR_GOOD)
    }
    return Orders(
        drained=tuple(id_ for id_ in orders.drained if id_ in here),
        leaving=tuple(one for one in orders.leaving if one in starts),
        moved=tuple(order for order in orders.moved if (order[0], order[1]) in starts),
        renew=tuple(one for one in orders.renew if one in starts),
    )


def _why_anew(fleet: FleetSpec, one: Instance, target: PoolSpec) -> str:
    """Why a process cannot simply change its pool."""
    source = fleet.pool(one.pool)
    if source is None or not (source.elastic and target.elastic):
        return "both pools must be elastic to hand over a running one"
    if fingerprint(fleet, source) != fingerprint(fleet, target):
        return "their launch flags differ"
    return f"it is {one.phase} with other flags"


def _fixed(now: FleetSpec, new: FleetSpec) -> list[str]:
    """What a running control plane was built around."""
    parts = {
        "The fleet's name": (now.name, new.name),
        "The launcher": (now.engine.launcher, new.engine.launcher),
        "The KV connector": (now.connector.name, new.connector.name),
        "The number of router workers": (now.router.workers, new.router.workers),
        "The router's address": (
            (now.router.host, now.router.port),
            (new.router.host, new.router.port),
        ),
    }
    return [what for what, (old, wanted) in parts.items() if old != wanted]


def _meant(word: str, known: Sequence[str], what: str) -> str:
    close = get_close_matches(word, known, n=1)
    listed = f"{what}: {', '.join(known[:20]) or 'none'}{', ...' if len(known) > 20 else ''}."
    return f"Did you mean {close[0]!r}? {listed}" if close else listed
