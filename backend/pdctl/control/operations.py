"""The operator's verbs. They write what is desired, never what is observed.

Law: a verb is durable before it takes effect, idempotent, and leaves one event that says who asked,
from where, and what came of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.domain.actions import Wishes
from pdctl.domain.audit import in_words
from pdctl.domain.errors import (
    ConflictError,
    InternalError,
    NotFoundError,
    OperatorError,
    PdctlError,
    StaleError,
)
from pdctl.domain.events import Event, EventKind
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.runs import RunRecord
from pdctl.domain.topology import FleetSpec, Mode, Role
from pdctl.ports import Clock, Store

log = logging.getLogger(__name__)

STUCK_S = 60.0
"""A start without a visible step for so many seconds may be restarted again."""
_COMING = frozenset(
    {Phase.PENDING, Phase.STARTING, Phase.LOADING, Phase.WARMING, Phase.PROBING}
)  # fmt: skip


class Operations:
    """Every change an operator can ask of a running fleet."""

    def __init__(
        self,
        state: FleetState,
        feed: Feed,
        clock: Clock,
        store: Store,
        wake: Callable[[], None],
    ) -> None:
        self._state, self._feed, self._clock, self.store = state, feed, clock, store
        self._wake = wake
        self._lock = asyncio.Lock()
        self._restarted: dict[str, int] = {}
        """The start of each instance that was to be replaced when last asked for."""
        self._done: list[Event] = []
        """Verbs that have been carried out and not been answered."""

    async def set_mode(
        self, mode: Mode, *, actor: str, source: str, expected: frozenset[int] | None = None
    ) -> FleetSpec:
        """Route new requests by `mode` from now on; requests under way finish as they began.

        StaleError when `expected` revisions are given and the present one is not among them.
        """
        async with self._lock:
            before = self._state.fleet.desired
            if mode is before.mode and (expected is None or before.revision in expected):
                return before
            told = {"actor": actor, "source": source, "before": before.mode, "after": mode}
            with self.told("set_mode", "fleet", told):
                self._refuse_while_closing()
                refuse_stale(expected, before)
                refuse_mode(before, mode)
                after = replace(before, mode=mode, revision=before.revision + 1)
                await self._save(after, actor=actor, reason=f"mode {before.mode} -> {mode}")
                self._publish(after, actor, source)
            self._wake()
            await self.remember()
            return after

    async def change_fleet(
        self,
        after: Callable[[FleetSpec], FleetSpec],
        *,
        verb: str,
        told: Mapping[str, Any],
        reason: str,
        actor: str,
        source: str,
        expected: frozenset[int] | None = None,
        run: Callable[[FleetSpec], RunRecord] | None = None,
        then: Callable[[RunRecord], None] = lambda _: None,
        at_once: Callable[[], None] = lambda: None,
    ) -> FleetSpec:
        """Want another fleet; `after` makes it from the present one, or raises to refuse.

        What `run` says of an applied plan is stored in one transaction with the fleet, and given
        to `then` as soon as the fleet is in force; `at_once` is called in the same breath, before
        anybody can plan for it. StaleError when `expected` revisions are given
        and the present one is not among them.
        """
        async with self._lock:
            data = {"actor": actor, "source": source, **told}
            with self.told(verb, "fleet", data):
                self._refuse_while_closing()
                before = self._state.fleet.desired
                data["before"] = in_words(before)
                refuse_stale(expected, before)
                wanted = replace(after(before), revision=before.revision + 1)
                data["after"] = in_words(wanted)
                record = run(wanted) if run else None
                await self._save(wanted, actor=actor, reason=reason, run=record)
                self._publish(wanted, actor, source)
                at_once()
            if record is not None:
                then(record)
            self._wake()
            await self.remember()
            return wanted

    async def restart_instance(self, id_: str, *, actor: str, source: str) -> Instance:
        """Drain and stop this start of an instance, and start a new one in its place."""
        async with self._lock:
            data = {"actor": actor, "source": source}
            with self.told("restart", id_, data):
                self._refuse_while_closing()
                one = self._find(id_)
                data["before"] = f"{one.phase}, start {one.generation}"
                data["after"] = f"start {one.generation + 1}"
                if one.phase in (Phase.DRAINING, Phase.STOPPING, Phase.STOPPED):
                    raise ConflictError(
                        "already_stopping", f"{id_} is {one.phase} already.",
                        "Wait until it is back or gone.",
                    )  # fmt: skip
                self._refuse_if_fresh(one)
                wishes = self._current()
                key = (one.id, one.generation)
                await self._want(replace(wishes, restart=wishes.restart | {key}))
                self._restarted[one.id] = one.generation
            self._wake()
            await self.remember()
            return one

    async def clear_failure(self, id_: str, *, actor: str, source: str) -> Instance:
        """Forget that an instance failed, and start it again now."""
        async with self._lock:
            data = {"actor": actor, "source": source}
            with self.told("clear", id_, data):
                self._refuse_while_closing()
                one = self._find(id_)
                data["before"] = f"{one.phase}, {one.failures} failures"
                data["after"] = Phase.PENDING.value
                if one.phase not in (Phase.FAILED, Phase.BACKOFF):
                    raise ConflictError(
                        "not_failed", f"{id_} has not failed: it is {one.phase}.",
                        "Only an instance that is failed or backoff can be cleared.",
                    )  # fmt: skip
                wishes = self._current()
                key = (one.id, one.generation)
                await self._want(replace(wishes, clear=wishes.clear | {key}))
            self._wake()
            await self.remember()
            return one

    def _refuse_if_fresh(self, one: Instance) -> None:
        """A start that a restart has just begun is what the next restart asks for."""
        stepped = one.vitals.progress_at
        stuck = stepped is not None and self._clock.monotonic() - stepped > STUCK_S
        asked = self._restarted.get(one.id) == one.generation - 1
        if asked and one.phase in _COMING and not stuck:
            raise ConflictError(
                "already_restarting",
                f"{one.id} is being restarted already: start {one.generation} is {one.phase}.",
                "Wait until it is ready.",
            )

    def _find(self, id_: str) -> Instance:
        one = self._state.fleet.instance(id_)
        if one is None:
            known = ", ".join(one.id for one in self._state.fleet.instances) or "none"
            raise NotFoundError("no_instance", f"There is no instance {id_!r}.", f"Known: {known}.")
        return one

    def _current(self) -> Wishes:
        """The wishes that still name a living generation."""
        alive = {(one.id, one.generation) for one in self._state.fleet.instances}
        wishes = self._state.wishes
        return replace(wishes, restart=wishes.restart & alive, clear=wishes.clear & alive)

    def _refuse_while_closing(self) -> None:
        if self._state.wishes.close_by is not None:
            raise ConflictError(
                "shutting_down", "The fleet is being shut down.", "Start `pdctl serve` again first."
            )

    async def _save(
        self, fleet: FleetSpec, *, actor: str, reason: str, run: RunRecord | None = None
    ) -> None:
        with _not_made():
            await self.store.save_revision(
                fleet, actor=actor, reason=reason, at=self._clock.now(), run=run
            )

    async def _want(self, wishes: Wishes) -> None:
        with _not_made():
            await self.store.save_wishes(wishes)
        self._state.set_wishes(
            replace(self._state.wishes, restart=wishes.restart, clear=wishes.clear)
        )

    async def remember(self) -> None:
        """Before a verb is answered, its entry is in the log: what was promised was also told."""
        told, self._done = self._done, []
        try:
            await self.store.add_events(told)
        except Exception as error:
            log.warning("a verb is not in the store's log yet: %s", error)  # `archive` tries on

    def _publish(self, fleet: FleetSpec, actor: str, source: str) -> None:
        self._state.set_desired(fleet)
        event = self._feed.publish(
            EventKind.FLEET_CHANGED,
            "fleet",
            {
                "mode": fleet.mode.value, "revision": fleet.revision, "actor": actor,
                "source": source,
            },
        )  # fmt: skip
        self._state.set_desired(fleet, seq=event.seq)

    def told(self, verb: str, subject: str, data: dict[str, Any]) -> _Told:
        """Publish what comes of a verb when the block under it is left."""
        return _Told(self._feed, verb, subject, data, self._done)


class _Told:
    """Publishes what came of a verb, however its block is left; the block may add to `data`."""

    def __init__(
        self, feed: Feed, verb: str, subject: str, data: dict[str, Any], told: list[Event]
    ) -> None:
        self._feed, self._subject, self._verb = feed, subject, verb
        self._data, self._told = data, told

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        outcome, message = "done", ""
        if error is not None:
            outcome = "refused" if isinstance(error, OperatorError) else "failed"
            message = str(error)
        data = {"verb": self._verb, **self._data, "outcome": outcome, "message": message}
        event = self._feed.publish(EventKind.OPERATION, self._subject, data)
        if outcome == "done":
            self._told.append(event)


@contextmanager
def _not_made() -> Iterator[None]:
    """A store that fails: the verb says so, and has changed nothing."""
    try:
        yield
    except PdctlError:
        raise
    except Exception as error:
        raise InternalError(
            "store_failed", f"The change could not be stored, so it was not made: {error}.",
            "See `pdctl doctor`.",
        ) from error  # fmt: skip


def refuse_stale(expected: frozenset[int] | None, fleet: FleetSpec) -> None:
    """StaleError when the revision is none of those that the change was meant for."""
    if expected is not None and fleet.revision not in expected:
        raise StaleError(expected, fleet.revision)


def refuse_mode(fleet: FleetSpec, mode: Mode) -> None:
    """ConflictError when `fleet` could never serve by `mode`."""
    if mode is not Mode.PD:
        return
    both = sum(pool.size for pool in fleet.pools if pool.role is Role.BOTH)
    for role in (Role.PREFILL, Role.DECODE):
        own = sum(pool.size for pool in fleet.pools if pool.role is role)
        if own + both == 0:
            raise ConflictError(
                f"no_{role}_pool",
                f"PD needs {role} instances and this fleet wants none.",
                f'Give a pool with role = "{role}" (or "both") a size of at least 1.',
            )
    if both == 1 and all(pool.size == 0 or pool.role is Role.BOTH for pool in fleet.pools):
        raise ConflictError(
            "no_peer",
            "PD needs two instances and this fleet wants one.",
            "Make the pool larger, or add another.",
        )
