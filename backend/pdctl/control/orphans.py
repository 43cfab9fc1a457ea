"""Engines that no instance owns: seen, named, ended, or made an instance.

Law: nothing is ended or taken over unasked, and only by the identity that the operator saw. What
another pdctl supervises is its own until somebody insists.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from dataclasses import replace

from pdctl.control.launching import HOST, LOOK_DEADLINE_S
from pdctl.control.lookout import Lookout
from pdctl.control.operations import Operations
from pdctl.control.reconciler import Reconciler
from pdctl.domain import orphans, seats
from pdctl.domain.compat import compat
from pdctl.domain.errors import ConflictError, EngineError, NotFoundError
from pdctl.domain.instance import Endpoint
from pdctl.domain.lifecycle import Phase
from pdctl.domain.orphans import Found, Kind
from pdctl.domain.placement import Holding, side_channels
from pdctl.domain.takeover import Fit, fit
from pdctl.domain.topology import FleetSpec, PoolSpec, fingerprint
from pdctl.ports import Attacher, Ended, LaunchOrder, Probe, Running

log = logging.getLogger(__name__)
GRACE_S = 10.0
"""Between SIGTERM to the leader and the end of the whole family."""
_KEY = re.compile(r"(\d+)-(\d+)")


class Orphans:
    """The verbs on engines that no instance owns."""

    def __init__(
        self,
        lookout: Lookout,
        operations: Operations,
        *,
        reconciler: Reconciler,
        probe: Probe,
        launcher: object,
    ) -> None:
        self._lookout, self._state, self._operations = lookout, lookout.state, operations
        self._reconciler, self._probe = reconciler, probe
        self._attacher = launcher if isinstance(launcher, Attacher) else None
        self._lock = asyncio.Lock()

    async def list(self) -> tuple[Found, ...]:
        """Every engine of this machine, instances of this fleet included."""
        return await self._lookout.find()

    async def kill(self, key: str, *, force: bool, actor: str, source: str) -> Found:
        """End it and what it left behind; ConflictError when it is not to be ended."""
        data = {"actor": actor, "source": source}
        with self._operations.told("kill_orphan", key, data):
            found = await self._one(key)
            data["before"] = in_words(found)
            refuse_kill(found, force=force)
            done = await self._lookout.end(found, GRACE_S)
            gone = summed_up(found, done)
            data["after"] = Kind.GONE.value
        await self._operations.remember()
        return gone

    async def adopt(self, key: str, pool: str, *, actor: str, source: str) -> tuple[Running, Fit]:
        """Make it the next instance of `pool`, which grows by one; ConflictError: it cannot be."""
        nonce = secrets.token_hex(8)
        async with self._lock:
            with self._reconciler.expecting(nonce):
                try:
                    found, fits = await self._fitting(key, pool)
                    run = await self._attach(self._order(found, fits, pool, nonce), found)
                except Exception:
                    with self._operations.told(
                        "adopt", key, {"actor": actor, "source": source, "about": [pool]}
                    ):
                        raise
                await self._want(run, found, actor=actor, source=source)
            return run, fits

    async def _fitting(self, key: str, name: str) -> tuple[Found, Fit]:
        fleet = self._state.fleet.desired
        found, pool = await self._one(key), _pool(fleet, name)
        if self._attacher is None:
            raise ConflictError(
                "cannot_adopt",
                f"The launcher {fleet.engine.launcher} runs engines inside pdctl and can take over "
                "no process.", "Adopting needs launcher = \"subprocess\".",
            )  # fmt: skip
        held = [
            Holding(one.id, one.pool, one.slot, side_channels(fleet, fleet.pool(one.pool)))
            for one in self._state.fleet.instances
            if one.phase is not Phase.STOPPED
        ]
        fits = fit(found, fleet, pool, held)
        await self._refuse_silent(fits, fleet)
        return found, fits

    async def _refuse_silent(self, fits: Fit, fleet: FleetSpec) -> None:
        """It must answer for the model that its command line names."""
        try:
            async with asyncio.timeout(LOOK_DEADLINE_S):
                health = await self._probe.look(_endpoint(fits))
        except TimeoutError:
            health = None
        if health is None or not health.up:
            why = health.why if health else "timeout"
            raise ConflictError(
                "not_up", f"It does not answer on port {fits.slot.http_port}: {why}.",
                "Wait until it is up, or end it with `pdctl orphans kill`.",
            )  # fmt: skip
        if health.model and health.model != fleet.served_name:
            raise ConflictError(
                "other_model", f"It serves {health.model}, this fleet {fleet.served_name}."
            )

    async def _attach(self, order: LaunchOrder, found: Found) -> Running:
        """Watch it first, then want it: a crash between the two ends nothing that was asked for."""
        assert self._attacher is not None  # noqa: S101 - looked at in _fitting
        leader = found.family.leader
        return await self._attacher.attach(order, (leader.pid, leader.start), leader.since)

    async def _want(self, run: Running, found: Found, *, actor: str, source: str) -> None:
        """Make its pool larger, and in the same breath make it the instance that fills it."""
        id_, pool, pid = run.order.instance_id, run.order.pool, found.family.leader.pid
        taken = False

        def take() -> None:
            nonlocal taken
            taken = True
            self._reconciler.take_over(run, f"adopted while it ran (pid {pid})")

        try:
            await self._operations.change_fleet(
                lambda now: _grown(now, pool), verb="adopt",
                told={
                    "about": [id_, pool], "key": found.key,
                    "change": f"{id_} adopted from pid {pid}",
                },
                reason=f"adopt pid {pid} as {id_}", actor=actor, source=source, at_once=take,
            )  # fmt: skip
        finally:
            if not taken and self._attacher is not None:
                await self._attacher.detach(run.order.nonce)

    def _order(self, found: Found, fits: Fit, name: str, nonce: str) -> LaunchOrder:
        fleet = self._state.fleet
        pool = _pool(fleet.desired, name)
        id_ = seats.free_id(pool.name, [one.id for one in fleet.instances])
        return LaunchOrder(
            instance_id=id_, pool=pool.name, role=pool.role,
            generation=self._reconciler.next_generation(id_), nonce=nonce,
            fingerprint=fingerprint(fleet.desired, pool), slot=fits.slot,
            compat=f"as {found.key}" if fits.warning else compat(fleet.desired, pool),
            endpoint=_endpoint(fits), argv=found.family.leader.words, env=(),
            shutdown_timeout_s=fits.shutdown_timeout_s,
        )  # fmt: skip

    async def _one(self, key: str) -> Found:
        """The engine of that key; ConflictError when another process has its pid, or none."""
        seen = await self._lookout.find()
        if (one := next((one for one in seen if one.key == key), None)) is not None:
            return one
        return refuse_key(key, seen)


def refuse_key(key: str, seen: tuple[Found, ...]) -> Found:
    """Why there is no such engine, as an error."""
    match = _KEY.fullmatch(key)
    if match is None:
        known = ", ".join(one.key for one in seen[:10]) or "none"
        raise NotFoundError("no_such_engine", f"There is no engine {key!r}.", f"Known: {known}.")
    pid = match[1]
    other = any(str(one.family.leader.pid) == pid for one in seen)
    now = f"process {pid} is another engine now" if other else "it has ended"
    raise ConflictError(
        "identity_moved", f"{key} is not there any more: {now}.", "List again: pdctl orphans"
    )


def refuse_kill(found: Found, *, force: bool, served: bool = True) -> None:
    """ConflictError when it is an instance, or somebody's who has to be overruled.

    `served`: its pdctl runs, so that there is a better way to end an instance.
    """
    leader = found.family.leader
    if found.kind is Kind.ADOPTED and not served and not force:
        raise ConflictError(
            "is_instance", f"It is {found.instance}, which the next pdctl serve adopts.",
            "--force ends it all the same.",
        )  # fmt: skip
    if found.kind is Kind.ADOPTED and served:
        raise ConflictError(
            "is_instance", f"It is {found.instance} of this fleet.",
            f"`pdctl stop {found.instance}` drains it and makes its pool smaller.",
        )  # fmt: skip
    if not leader.readable:
        raise ConflictError(
            "not_permitted", f"It belongs to user {leader.user or 'unknown'}.",
            "End it as that user, or run pdctl as root.",
        )  # fmt: skip
    if found.kind is Kind.FOREIGN and found.supervised and not force:
        raise ConflictError(
            "supervised", f"{found.why} That pdctl supervises it, and starts it again.",
            "Stop it there; --force ends it all the same.",
        )  # fmt: skip


def summed_up(found: Found, done: Ended) -> Found:
    """The engine as it is after it was ended; EngineError when some of it would not die."""
    if done.survivors:
        pids = ", ".join(map(str, done.survivors))
        raise EngineError(
            "survivors", f"SIGKILL could not end its processes {pids}.",
            "They may hold devices, ports and memory until a reboot.",
        )  # fmt: skip
    files = _count(len(done.segments), "shared-memory file")
    left = f"; {files} removed" if done.segments else ""
    return orphans.ended(found, f"Ended: {_count(done.processes, 'process', 'es')}{left}.")


def in_words(found: Found) -> str:
    """An engine in one short line."""
    leader, count = found.family.leader, _count(len(found.family.members), "process", "es")
    return f"{found.kind} {leader.part}, pid {leader.pid}, {count}"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}{plural}"


def _pool(fleet: FleetSpec, name: str) -> PoolSpec:
    if (pool := fleet.pool(name)) is None:
        known = ", ".join(one.name for one in fleet.pools)
        raise NotFoundError("no_such_pool", f"There is no pool {name!r}.", f"Pools: {known}.")
    return pool


def _endpoint(fits: Fit) -> Endpoint:
    return Endpoint(HOST, fits.slot.http_port, fits.slot.side_channel_port)


def _grown(fleet: FleetSpec, name: str) -> FleetSpec:
    pools = [replace(one, size=one.size + (one.name == name)) for one in fleet.pools]
    return replace(fleet, pools=tuple(pools))
