"""One control plane per state folder, from its store to its last process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import uvloop

from pdctl import __version__
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.filelimit import raise_file_limit
from pdctl.adapters.ownership import Ownership
from pdctl.adapters.statelock import StateLock
from pdctl.adapters.store.standin import open_store
from pdctl.app.life import Companion, Say
from pdctl.app.wiring import build
from pdctl.control.journal import Tell
from pdctl.control.resume import chosen_live, desired_at_start, from_the_file
from pdctl.domain.topology import FleetSpec
from pdctl.settings import Settings

log = logging.getLogger(__name__)
Begin = Callable[[FleetSpec, FleetSpec | None], tuple[FleetSpec, str]]


def serve(
    settings: Settings,
    fleet: FleetSpec,
    *,
    companion: Companion | None = None,
    say: Say = log.info,
    tell: Tell | None = None,
    lock: StateLock | None = None,
    resume: bool = True,
) -> int:
    """Run until stopped: 0 after an orderly stop, 1 when a part of us failed.

    `tell` gets every change of state as a line; `lock` is the state folder's, when the caller has
    taken it already; without `resume` the fleet is as its file says, whatever was chosen live.
    Raises OperatorError for what an operator can put right (a taken port, a damaged database).
    """
    raise_file_limit()  # every request needs two
    lock = lock or StateLock(settings.state_dir)
    begin = desired_at_start if resume else from_the_file
    try:
        return uvloop.run(_serve(settings, fleet, lock, begin, Voices(companion, say, tell)))
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class Voices:
    """Who hears of this run."""

    companion: Companion | None
    say: Say
    tell: Tell | None


async def _serve(
    settings: Settings, fleet: FleetSpec, lock: StateLock, begin: Begin, voices: Voices
) -> int:
    clock = SystemClock()
    store = await open_store(settings.url)
    ownership = None
    try:
        ownership = await Ownership.take(store, settings.state_dir, clock)
        desired, why = begin(fleet, await store.latest_revision())
        await store.save_revision(desired, actor="serve", reason=why, at=clock.now())
        system = await build(settings, desired, store, clock, voices.tell)
        system.owner = ownership.keep
        lock.announce(system.face.url)
        await ownership.announce(system.face.url)
        voices.say(f"pdctl {__version__}: {why}")
        if live := await chosen_live(desired, store):
            voices.say(live)
        return await system.run(voices.companion, voices.say)
    finally:
        if ownership is not None:
            await ownership.release()
        await store.close()
