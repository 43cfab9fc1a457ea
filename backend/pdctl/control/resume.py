"""What is desired when the control plane starts: the fleet file, and what operators did since.

The file says what the fleet is; what was done live (sizes, mode, drains, a posted file) survives
a restart as long as the file is still the one it was said about. An edited file wins, and says so.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from pdctl.domain.digest import digest
from pdctl.domain.events import EventKind, EventQuery
from pdctl.domain.topology import FleetSpec
from pdctl.ports import Store

LOOK_BACK = 200
FACTS = 5000
"""Revisions and facts in which the switch of mode is looked for."""


def desired_at_start(file: FleetSpec, stored: FleetSpec | None) -> tuple[FleetSpec, str]:
    """The desired fleet and a sentence saying where it came from."""
    file = replace(file, file_mode=file.mode, file_digest=digest(file))
    if stored is None:
        return replace(file, revision=1), "first start with this fleet file"
    if _is_about(file, stored):
        # How many workers there are takes a restart: here it is.
        router = replace(stored.router, workers=file.router.workers)
        resumed = replace(stored, source=file.source, router=router, file_mode=file.file_mode)
        return resumed, (
            f"resumed at revision {stored.revision}, {stored.shape}, mode {stored.mode}"
        )
    return (
        replace(file, revision=stored.revision + 1),
        f"the fleet file changed since revision {stored.revision}",
    )


def from_the_file(file: FleetSpec, stored: FleetSpec | None) -> tuple[FleetSpec, str]:
    """The fleet as its file says, whatever was chosen live before; and a sentence saying so."""
    file = replace(file, file_mode=file.mode, file_digest=digest(file))
    revision = stored.revision + 1 if stored else 1
    return replace(file, revision=revision), f"as the fleet file says, mode {file.mode}"


async def chosen_live(desired: FleetSpec, store: Store) -> str:
    """A line for whoever expects the file's mode and gets another; empty when they agree."""
    if desired.mode is (desired.file_mode or desired.mode):
        return ""
    past = await store.history(limit=LOOK_BACK)
    chosen = next(
        (
            new
            for new, old in pairwise(past)
            if (new.fleet.mode, old.fleet.mode) == (desired.mode, desired.file_mode)
        ),
        None,
    )
    source = await _source_of(chosen.fleet.revision, store) if chosen else ""
    at = datetime.fromtimestamp(chosen.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if chosen else ""
    when = f" at {at} by {chosen.actor}{source}" if chosen else ""
    return (
        f"the fleet file says mode {desired.file_mode}; {desired.mode} was chosen live{when}: "
        f"`pdctl mode {desired.file_mode}` returns to it"
    )


async def _source_of(revision: int, store: Store) -> str:
    """From which face a revision came, where the facts of that time are still kept."""
    for fact in await store.events(EventQuery(limit=FACTS)):
        if fact.kind is EventKind.FLEET_CHANGED and fact.data.get("revision") == revision:
            return f" ({fact.data.get('source')})"
    return ""


def _is_about(file: FleetSpec, stored: FleetSpec) -> bool:
    if stored.file_digest:
        return file.file_digest in (stored.file_digest, stored.applied_digest)
    past = replace(stored, file_digest=file.file_digest)  # stored before digests were kept
    return replace(file, mode=stored.mode, revision=stored.revision) == past
