"""Who may write a database, and when another may take its place: pure.

Law: never two at a time. Whoever is surely gone is replaced at once; of whom nothing is known but
its last sign of life, only after a silence that no living one keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from pdctl.domain.errors import ConflictError

BEAT_S = 5.0
SILENCE_S = 30.0
"""After so long without a sign of life an owner on another machine counts as gone."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One `pdctl serve`, as it signs the database that it writes."""

    name: str
    """Drawn anew by every start."""
    host: str
    pid: int
    start: int
    """Of the process: clock ticks after boot; with `pid` it names one process for ever."""
    boot: str
    """Of the machine and of the namespace that `pid` counts in: elsewhere it means nothing."""
    folder: str
    """The state folder, by device and inode: whoever serves from it holds its lock."""
    state_dir: str
    url: str = ""
    """Of its admin API, once it listens."""

    def __str__(self) -> str:
        where = f", at {self.url}" if self.url else ""
        return f"pdctl with pid {self.pid} on {self.host} (state folder {self.state_dir}{where})"


def refuse_second(held: Owner, silent_s: float, me: Owner, *, gone: bool) -> None:
    """ConflictError unless `held`, last heard of `silent_s` seconds ago, may be replaced.

    `gone`: its process is known to have ended.
    """
    near = held.boot == me.boot
    if gone or silent_s >= SILENCE_S or (near and held.folder == me.folder):
        return
    left = SILENCE_S - silent_s
    wait = "" if near else f" If it is gone for good, try again in {left:.0f} s."
    raise ConflictError(
        "database_owned",
        f"The database is used by another {held}; it was last heard of {silent_s:.0f} s ago.",
        f"Stop that one first, or give this one a database of its own: PDCTL_DATABASE_URL.{wait}",
    )
