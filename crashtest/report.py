"""What is told: a line for each round, evidence of what went wrong, and the summary."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crashtest.invariants import Fate, Kill
from crashtest.rounds import Round
from crashtest.scene import Kind
from crashtest.world import World
from pdctl.client.errors import ClientError

EVENTS = 200
"""Newest facts that are kept with a violation."""


def line(one: Round) -> str:
    """A round in a line."""
    killed = ", ".join(map(_victim, one.kills)) or "nobody"
    state = one.operation.state if one.operation else _short(one.intent.note)
    asked = f"{one.intent.name}{f' ({state})' if state else ''}"
    fates = ", ".join(f"{count} {fate}" for fate, count in one.fates.items()) or "no request ended"
    verdict = f"  {len(one.complaints)} VIOLATED" if one.complaints else ""
    return (
        f"round {one.number:3d}  {asked}; killed {killed}; {one.shape or 'never whole'} "
        f"after {one.settled_s:.1f} s; {fates}{verdict}"
    )


def _victim(one: Kill) -> str:
    frozen = "frozen " if one.until - one.at > 0.05 else ""
    return f"{frozen}{one.kind}{f' of {one.instance}' if one.instance else ''}"


def _short(note: str) -> str:
    return note if len(note) <= 60 else f"{note[:59]}…"


async def keep_evidence(world: World, one: Round, folder: Path) -> Path:
    """Everything that may explain a violation, in a folder of its own."""
    here = folder / f"round-{one.number}"
    here.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {
        "complaints": one.complaints,
        "intent": {"name": one.intent.name, "before": one.intent.before,
                   "after": one.intent.after, "operation": one.intent.id,
                   "note": one.intent.note},
        "operation": one.operation.model_dump(mode="json") if one.operation else None,
        "kills": [asdict(kill) for kill in one.kills],
    }  # fmt: skip
    try:
        told["fleet"] = (await world.client.fleet()).model_dump(mode="json")
        page = await world.client.events_page(limit=EVENTS)
        told["events"] = [event.model_dump(mode="json") for event in page.items]
    except ClientError as error:
        told["unanswered"] = str(error)
    scene = await world.look()
    told["processes"] = [{**asdict(p), "instance": scene.instance(p)} for p in scene.processes]
    text = json.dumps(told, indent=1, default=str)
    (here / "evidence.json").write_text(text, encoding="utf-8")
    shutil.copy(world.log, here / "serve.log")
    return here


def summary(rounds: Sequence[Round], *, seed: int, seconds: float, engines: str) -> dict[str, Any]:
    """Everything in numbers."""
    kills = [kill for one in rounds for kill in one.kills]
    settled = sorted(one.settled_s for one in rounds) or [0.0]
    fates: Counter[Fate] = Counter()
    for one in rounds:
        fates.update(one.fates)
    return {
        "engines": engines,
        "rounds": len(rounds),
        "seed": seed,
        "seconds": round(seconds),
        "violations": sum(len(one.complaints) for one in rounds),
        "complaints": [f"round {one.number}: {c}" for one in rounds for c in one.complaints],
        "victims": {
            str(k): sum(one.kind is k for one in kills) for k in Kind if k is not Kind.OTHER
        },
        "frozen_first": sum(one.until - one.at > 0.05 for one in kills),
        "requests": {str(fate): fates[fate] for fate in Fate},
        "operations": _operations(rounds),
        "cleared": sum(one.cleared for one in rounds),
        "settled_s": {
            "median": round(statistics.median(settled), 1),
            "p95": round(settled[math.ceil(0.95 * len(settled)) - 1], 1),
            "max": round(settled[-1], 1),
        },
    }


def _operations(rounds: Sequence[Round]) -> dict[str, dict[str, int]]:
    """By name, how they ended; an operation during which the control plane died counts apart."""
    found: dict[str, Counter[str]] = {}
    for one in rounds:
        if one.intent.change is None:
            continue
        state = one.operation.state if one.operation else "not accepted"
        died = any(kill.kind is Kind.CONTROL for kill in one.kills)
        found.setdefault(one.intent.name, Counter())[
            f"{state}{' across a restart' if died else ''}"
        ] += 1
    return {name: dict(counts) for name, counts in sorted(found.items())}


def table(told: dict[str, Any]) -> str:
    """The summary for people."""

    def counts(values: dict[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in values.items()) or "none"

    settled = told["settled_s"]
    lines = [
        f"{told['rounds']} rounds on {told['engines']} engines, seed {told['seed']}, "
        f"{told['seconds']} s",
        f"killed      {counts(told['victims'])}; {told['frozen_first']} of them frozen first",
        f"requests    {counts(told['requests'])}",
        f"whole again after {settled['median']} s (median), {settled['p95']} s (p95), "
        f"{settled['max']} s (max); {told['cleared']} instances cleared by the operator",
    ]
    lines += [f"operation   {name}: {counts(ended)}" for name, ended in told["operations"].items()]
    lines.append(f"violations  {told['violations']}")
    return "\n".join([*lines, *(f"  {one}" for one in told["complaints"])])
