"""What a rehearsal means to an operator: what is refused and why, and what to expect, in sentences.

Pure. Law: a refusal is what the change itself cannot reach; what was amiss before it is a risk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pdctl.domain import holding, seats
from pdctl.domain.change import Refusal
from pdctl.domain.compat import compat
from pdctl.domain.instance import Instance
from pdctl.domain.lifecycle import Phase
from pdctl.domain.rehearsal import Capacity, Rehearsal, Step
from pdctl.domain.topology import FleetSpec, Mode, Role, fingerprint

_BROKEN = frozenset({Phase.FAILED, Phase.BACKOFF})


@dataclass(frozen=True, slots=True)
class Dip:
    """The lowest point of a role during the change."""

    role: str
    """"prefill", "decode", or "serving" for instances of any role."""
    before: int
    lowest: int
    after: int
    at_s: float
    """Seconds from the start, when it is first that low."""
    for_s: float
    """How long it stays there; 0 when it ends there."""


def dips(curve: Sequence[Capacity], end_s: float) -> tuple[Dip, ...]:
    """The lowest point of each role."""
    return tuple(_dip(role, curve, end_s) for role in ("prefill", "decode", "serving"))


def _dip(role: str, curve: Sequence[Capacity], end_s: float) -> Dip:
    counts = [(point.at_s, int(getattr(point, role))) for point in curve]
    lowest = min(count for _, count in counts)
    at = next(i for i, (_, count) in enumerate(counts) if count == lowest)
    over = next((at_s for at_s, count in counts[at:] if count > lowest), end_s)
    began, after = counts[at][0], counts[-1][1]
    return Dip(role, counts[0][1], lowest, after, began, over - began if after > lowest else 0.0)


def refusals(desired: FleetSpec, ahead: Rehearsal, already: Iterable[str] = ()) -> list[Refusal]:
    """Why `desired` cannot be reached; `already` are pools that fell short before the change."""
    if ahead.reached or (ahead.rest is not None and _frees(desired, ahead.instances)):
        return []
    skip, found = set(already), list[Refusal]()
    for pool in desired.pools:
        members = [one for one in ahead.instances if one.pool == pool.name]
        if len(members) < pool.size and pool.name not in skip:
            note = next((note for note in ahead.notes if note.startswith(f"{pool.name} wants")), "")
            found.append(
                Refusal(
                    "no_free_slot",
                    note or f"{pool.name} gets {len(members)} of {pool.size}",
                    f"At most {pool.name}={len(members)} fits now; or free what is held.",
                )
            )
    for one in ahead.instances if ahead.rest is None else ():
        if one.phase is Phase.READY and (why := _stays(desired, one, ahead.notes)):
            hint = f"Make another {one.role} instance ready first, or ask for {one.pool}=0."
            found.append(Refusal("last_of_role", why, hint))
    return found


def _frees(desired: FleetSpec, instances: Iterable[Instance]) -> bool:
    """True when something is still to go, so that a slot may come free."""
    prints = {pool.name: fingerprint(desired, pool) for pool in desired.pools}
    return any(
        one.phase in seats.LEFT or prints.get(one.pool) != one.fingerprint for one in instances
    )


def short(desired: FleetSpec, ahead: Rehearsal) -> set[str]:
    """Pools that do not get their size."""
    have = [one.pool for one in ahead.instances]
    return {pool.name for pool in desired.pools if have.count(pool.name) < pool.size}


def _stays(desired: FleetSpec, one: Instance, notes: Sequence[str]) -> str:
    """The planner's word on why it stays, when it should not."""
    begins = (f"{one.id} stays until", f"{one.id} is not drained")
    return next((note for note in notes if note.startswith(begins)), "")


def risks(
    before: FleetSpec, desired: FleetSpec, observed: Sequence[Instance], ahead: Rehearsal
) -> list[str]:
    """What an operator should know before saying yes."""
    return [
        *_folded(ahead),
        *_capacity_risks(desired, ahead),
        *_pair_risks(before, desired, ahead),
        *_stream_risks(desired, ahead.steps),
        *_mode_risks(before, desired),
        *_standing_risks(observed),
        *_guesses(ahead.steps),
    ]


def _folded(ahead: Rehearsal) -> list[str]:
    """What is only derived."""
    if (rest := ahead.rest) is None:
        return []
    takes = f"its time is derived from the first {rest.seen_s:.0f} s"
    if rest.at_least:
        takes = "how long it takes cannot be told yet"
    return [f"{rest.words}: {takes}; by the same rule, capacity falls no lower than shown"]


def _capacity_risks(desired: FleetSpec, ahead: Rehearsal) -> list[str]:
    prefill, decode, serving = dips(ahead.capacity, ahead.took_s)
    said = []
    if serving.lowest == 0 and serving.before:
        wait = desired.router.queue_timeout_s
        said.append(
            f"nothing serves {_time(serving)}: requests wait in the router for up to {wait:g} s"
        )
    elif desired.mode is Mode.PD:
        for dip in (prefill, decode):
            if dip.lowest == 0 and not dip.after:
                continue  # asked for
            if dip.lowest == 0 and dip.before:
                said.append(f"no {dip.role} is ready {_time(dip)}: requests are served whole then")
            elif dip.lowest < min(dip.before, dip.after):
                said.append(
                    f"{dip.role} falls from {dip.before} to {dip.lowest} ready {_time(dip)}"
                )
    elif serving.lowest < min(serving.before, serving.after):
        said.append(f"{serving.lowest} of {serving.before} instances serve {_time(serving)}")
    return said


def _pair_risks(before: FleetSpec, desired: FleetSpec, ahead: Rehearsal) -> list[str]:
    """When old and new may not pair, and what that costs."""
    hashes = [{compat(fleet, pool) for pool in fleet.pools} for fleet in (before, desired)]
    if desired.mode is not Mode.PD or not ahead.steps:
        return []
    if len(hashes[1]) > 1:
        return [
            "its pools differ in flags that both ends of a handoff must share: not all can pair"
        ]
    if hashes[0] == hashes[1]:
        return []
    said = ["old and new instances may not pair: old hands over to old, new to new"]
    if ahead.capacity[0].handoffs and (gone := _without_pairs(ahead)):
        why = "nothing is free to start both ends of a new pair first"
        said.append(
            f"no pair hands over for {gone:.0f} s, because {why}: requests are served whole"
        )
    return said


def _without_pairs(ahead: Rehearsal) -> float:
    """Seconds without any pair that hands over."""
    seen = ahead.rest.seen_s if ahead.rest else ahead.took_s
    ends = [point.at_s for point in ahead.capacity[1:]] + [ahead.took_s]
    spans = zip(ahead.capacity, ends, strict=True)
    return sum(max(0.0, min(end, seen) - p.at_s) for p, end in spans if not p.handoffs)


def _time(dip: Dip) -> str:
    return f"for {dip.for_s:.0f} s" if dip.for_s else "from then on"


def _stream_risks(desired: FleetSpec, steps: Sequence[Step]) -> list[str]:
    said = []
    for step in steps:
        if step.kind == "kill" and step.streams:
            said.append(f"{step.subject} is killed with {step.streams} streams open: {step.why}")
        if step.kind != "drain" or "undrain" in step.why:
            continue
        pool = desired.pool(step.pool)
        if step.streams and pool is not None:
            said.append(
                f"{_streams(step.streams)} on {step.subject} may go on for "
                f"{pool.drain_timeout_s:g} s, and for {pool.shutdown_timeout_s} s more after "
                f"SIGTERM; what is open then is cut"
            )
        if step.lease_s and step.role is not Role.DECODE:
            said.append(
                f"KV that decodes have yet to pull keeps {step.subject} alive for up to "
                f"{step.lease_s:g} s after its last stream"
            )
    return said


def _streams(count: int) -> str:
    return "1 stream" if count == 1 else f"{count} streams"


def _mode_risks(before: FleetSpec, desired: FleetSpec) -> list[str]:
    said = []
    if before.mode is not desired.mode:
        said.append("requests under way finish in the mode in which they began")
    if desired.mode is Mode.PD:
        said += [
            f"PD without any {role}: every request is served whole"
            for role in (Role.PREFILL, Role.DECODE)
            if not any(pool.size for pool in desired.pools if pool.role in (role, Role.BOTH))
        ]
    return said


def _standing_risks(observed: Sequence[Instance]) -> list[str]:
    said = [
        f"{one.id} is {one.phase} before this begins: {one.message}"
        for one in observed
        if one.phase in _BROKEN
    ]
    held = [one.id for one in observed if holding.is_held(one)]
    return [*said, f"{', '.join(held)} is out of rotation by an operator"] if held else said


def _guesses(steps: Sequence[Step]) -> list[str]:
    pools = sorted({step.pool for step in steps if step.kind == "launch" and step.samples == 0})
    if not pools:
        return []
    return [f"no start of {', '.join(pools)} has been seen yet: its duration is assumed"]
