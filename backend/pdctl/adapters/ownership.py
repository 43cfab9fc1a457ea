"""Owning the database while `pdctl serve` lives: signed at the start, refreshed, given up.

Law: the lock of the state folder comes first. Whoever holds it and finds an owner with the same
folder knows that this one is gone, or has let go.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
from dataclasses import replace
from pathlib import Path

from pdctl.adapters.store.repository import SqlStore
from pdctl.domain.errors import PdctlError
from pdctl.domain.owner import BEAT_S, Owner
from pdctl.ports import Clock
from pdctl.shim import procfs

log = logging.getLogger(__name__)


class Ownership:
    """Our hold on one database."""

    def __init__(self, store: SqlStore, me: Owner, clock: Clock) -> None:
        self._store, self._me, self._clock = store, me, clock

    @classmethod
    async def take(cls, store: SqlStore, state_dir: Path, clock: Clock) -> Ownership:
        """Become the only writer; ConflictError names another that lives."""
        me = ourselves(state_dir)
        await store.own(me, lambda other: has_ended(other, me))
        return cls(store, me, clock)

    async def announce(self, url: str) -> None:
        """Let whoever comes second know where the admin API is."""
        self._me = replace(self._me, url=url)
        with contextlib.suppress(PdctlError):
            await self._store.beat(self._me)

    async def keep(self) -> None:
        """Show that we live, until another owns the database: then this ends, and so must we."""
        while True:
            await self._clock.sleep(BEAT_S)
            try:
                if not await self._store.beat(self._me):
                    log.error("another pdctl has taken over the database: nothing is written there")
                    return
            except PdctlError as error:
                log.warning("the database takes no sign of life of ours: %s", error)

    async def release(self) -> None:
        """Leave it to the next one; also before an in-place upgrade hands over. Never raises."""
        with contextlib.suppress(PdctlError):
            await self._store.disown(self._me)


def ourselves(state_dir: Path) -> Owner:
    """This process, as an owner signs."""
    me, folder = procfs.look(os.getpid()), state_dir.stat()
    return Owner(
        name=secrets.token_hex(8), host=socket.gethostname(), pid=os.getpid(),
        start=me.start if me else 0, boot=_boot(),
        folder=f"{folder.st_dev}:{folder.st_ino}", state_dir=str(state_dir),
    )  # fmt: skip


def has_ended(other: Owner, me: Owner) -> bool:
    """True when the process of `other` is surely gone; False when it cannot be seen from here."""
    return other.boot == me.boot and not procfs.alive(other.pid, other.start)


def _boot() -> str:
    """A pid names a process only in this boot of this machine, in this namespace of pids."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = "?"
    return f"{procfs.boot_id()} {namespace}"
