"""Every screen in every state at the smallest and at a large size, compared with checked-in text.

PDCTL_UPDATE_SNAPSHOTS=1 writes the files anew; look at the difference before committing it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.domain.change import Change
from pdctl.domain.events import EventKind
from pdctl.domain.topology import SignalRuleSpec, SignalsSpec
from tests.console.stage import Stage, staged, steady
from tests.fakes import signals
from tests.fakes.world import State, World

FILES = Path(__file__).with_name("snapshots")
UPDATE = os.environ.get("PDCTL_UPDATE_SNAPSHOTS") == "1"
SIZES = ((80, 24), (200, 50))


def compare(name: str, text: str) -> list[str]:
    """What is wrong with one picture; or write it."""
    file, text = FILES / f"{name}.txt", steady(text) + "\n"
    if UPDATE:
        file.write_text(text, encoding="utf-8")
    known = file.read_text(encoding="utf-8") if file.exists() else "(no such file)"
    return [] if text == known else [f"{file.name} should be:\n{known}\nbut is:\n{text}"]


async def _tour(stage: Stage, state: State) -> AsyncIterator[str]:
    """Go through the screens; the name of each when it is to be looked at."""
    yield "fleet"
    if state != "empty":
        await stage.press("enter")
        await stage.shows("Esc closes")
        yield "instance"
        await stage.press("escape")
    await stage.go("2", "requests")
    yield "requests"
    if state != "empty":
        await stage.press("enter")
        await stage.shows("Where its time went")
        yield "waterfall"
        await stage.press("escape")
    await stage.press("3")
    if state != "empty":
        await stage.log_lines()
    yield "logs"
    for key, name in (
        ("4", "events"), ("5", "pairs"), ("6", "operations"), ("7", "history"), ("8", "audit"),
    ):  # fmt: skip
        await stage.go(key, name)
        yield name
    if state != "empty":
        _look(stage.world)
        await stage.told()
    await stage.go("9", "signals")
    yield "signals"


def _look(world: World) -> None:
    """What is wrong is seen, and a pool that lacks an instance is wrong at once."""
    desired = world.state.fleet.desired
    spec = SignalsSpec(rules=(SignalRuleSpec("pool_short", for_s=0),))
    world.state.set_desired(replace(desired, signals=spec))
    signals.look(world)


async def _live(world: World) -> None:
    """What an operator did and what came of it: a stop with its rungs, a refusal, a lost pair."""
    who: dict[str, Any] = {"actor": "ada", "source": "cli"}
    plans = world.plane.plans
    for size, ended in ((3, True), (4, False)):
        if world.kind == "failing":
            break  # its store takes nothing
        change = Change(sizes=(("prefill", size),))
        run = await plans.apply((await plans.make(change, **who)).id, **who)
        if ended:
            await plans.cancel(run.id, **who)
    rungs = (
        ("out_of_rotation", "decode wants 2; streams have 300 s to finish"),
        ("sigterm", "drained; SIGTERM with 60 s"), ("kill", "it did not end within 70 s"),
    )  # fmt: skip
    for rung, message in rungs:
        data = {"rung": rung, "message": message, "pool": "decode"}
        world.publish(EventKind.STOP_RUNG, "decode-1", data)
    refused = {
        "verb": "drain", **who, "outcome": "refused", "about": ["decode-0"],
        "message": "decode-0 is the last decode that serves. Let another be ready first.",
    }  # fmt: skip
    world.publish(EventKind.OPERATION, "fleet", refused)
    first, *others = world.state.fleet.pairs
    why = "3 requests in a row failed on it: no KV arrived within 11 s"
    lost = replace(first, state="quarantined", message=why)
    world._observe(list(world.state.fleet.instances), [lost, *others])
    subject = f"{first.prefill}>{first.decode}"
    world.publish(EventKind.PAIR_CHANGED, subject, {"state": "quarantined", "message": why})


@pytest.mark.parametrize("state", ["empty", "normal", "failing", "huge"])
async def test_every_screen(state: State, tmp_path: Path) -> None:
    wrong = []
    async with staged(state, tmp_path, SIZES[0]) as stage:
        if state != "empty":
            await _live(stage.world)
            await stage.told()
        async for name in _tour(stage, state):
            for width, height in SIZES:
                await stage.resize(width, height)
                lines = stage.text().splitlines()
                assert (len(lines), max(map(len, lines)) <= width) == (height, True)
                wrong += compare(f"{state}-{width}x{height}-{name}", stage.text())
    assert not wrong, "\n\n".join(wrong)


async def test_dialogs(tmp_path: Path) -> None:
    wrong = []
    async with staged("normal", tmp_path, (80, 24)) as stage:
        for key, name in (("m", "mode"), ("plus", "resize"), ("r", "restart")):
            await stage.press(key)
            wrong += compare(f"normal-80x24-{name}", await stage.shows("Apply (y)"))
            await stage.press("escape")
        wrong += compare("normal-80x24-help", await stage.press("question_mark"))
        await stage.press("escape", "y")
        wrong += compare("normal-80x24-command", await stage.shows("Environment"))
        await stage.press("escape", "c")
        wrong += compare("normal-80x24-clear", await stage.shows("Try prefill-0 again?"))
        await stage.press("escape", "3")
        await stage.log_lines()
        wrong += compare("normal-80x24-pick", await stage.press("i"))
    assert not wrong, "\n\n".join(wrong)
