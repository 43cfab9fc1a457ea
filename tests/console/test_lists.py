"""Events, pairs, history and audit: live, filtered, and whole on Enter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.domain.change import Change
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl_console import model
from pdctl_console.screens import audit, history, operations
from pdctl_console.screens.pairs import PairsScreen
from pdctl_console.widgets.pair_matrix import PairMatrix
from tests.console.stage import Stage, staged

RUNG = {"rung": "kill", "message": "it did not end within 70 s", "pool": "decode"}


async def test_events_show_each_rung_and_are_filtered(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (140, 34)) as stage:
        await stage.press("4")
        stage.world.publish(EventKind.STOP_RUNG, "decode-1", RUNG)
        stage.world.change("decode-0", Phase.DRAINING, Reason.HELD, "an operator holds it")
        await stage.shows("▼ stop: kill", "it did not end within 70 s", "▽ draining", "held")
        text = await stage.press("t")
        assert "stop: kill" in text
        assert "rungs of the stop ladder only" in text
        assert "holds it" not in text
        await stage.press("space")
        stage.world.publish(EventKind.STOP_RUNG, "decode-2", RUNG)
        await stage.told()
        assert "decode-2" not in await stage.shows("paused")
        await stage.press("space")
        await stage.shows("decode-2")
        await stage.press("escape", "i", *"e-0", "enter")
        await stage.shows("about decode-0", "an operator holds it")
        assert "stop: kill" not in stage.text()
        await stage.press("escape", "slash", *"!ready", "enter")
        text = await stage.shows("without ready")
        assert "● ready" not in text
        await stage.press("escape", "f")
        assert "stop: kill" in await stage.shows("faults only")
        await stage.press("enter")
        await stage.shows("instance.stop_rung", "rung          kill")


async def test_older_ones_than_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((history, "PAGE"), (audit, "PAGE"), (operations, "PAGE")):
        monkeypatch.setattr(module, name, 2)
    for name in ("REVISIONS_KEPT", "AUDIT_KEPT", "OPERATIONS_KEPT"):
        monkeypatch.setattr(model, name, 2)
    async with staged("normal", tmp_path, (160, 34)) as stage:
        who: dict[str, Any] = {"actor": "ada", "source": "cli"}
        plans = stage.world.plane.plans
        for size in (3, 4, 5, 6):
            change = Change(sizes=(("prefill", size),))
            await plans.apply((await plans.make(change, **who)).id, **who)
        await stage.told()
        for key, screen, kept in (
            ("7", "history", "prefill 5 -> 6"), ("6", "operations", "prefill 5 -> 6"),
            ("8", "audit", "prefill 5 -> 6"),
        ):  # fmt: skip
            await stage.go(key, screen)
            await stage.shows(kept, "2 of 2 ")
            assert "prefill 3 -> 4" not in stage.text()
            await stage.press("greater_than_sign")
            await stage.shows(kept, "prefill 3 -> 4", "4 of 4 ")
        await stage.go("7", "history")
        await stage.press("greater_than_sign", "greater_than_sign")
        await stage.shows("There are no older revisions.")
        await stage.press("end", "enter")
        await stage.shows("Revision 1", "pdctl undo --to 1")


async def test_the_matrix_and_its_pair_in_words(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (120, 30)) as stage:
        await stage.press("5")
        await stage.shows(
            "decode-…", "prefill-0 → decode-0", "last good handoff 5s ago, in 14.2 ms"
        )
        quarantine(stage)
        await stage.shows("⊘ quarantined 1", "⊘ quarantined  last good", "3 requests in a row")
        await stage.press("right", "down")
        await stage.shows("prefill-1 → decode-1  ○ untried")
        await stage.pilot.click("#matrix", offset=(12, 1))
        await stage.shows("prefill-0 → decode-0  ⊘ quarantined")
        await stage.press("end")
        await stage.shows("prefill-1 → decode-2")
        await stage.press("tab", "enter")
        await stage.shows("prefill-0 → decode-0  ⊘ quarantined")
        await stage.press("d")
        await stage.shows("Esc closes", "role decode")


def quarantine(stage: Stage) -> None:
    world = stage.world
    first, *others = world.state.fleet.pairs
    why = "3 requests in a row failed on it"
    world._observe(
        list(world.state.fleet.instances),
        [replace(first, state="quarantined", message=why), *others],
    )
    data = {"state": "quarantined", "message": why}
    world.publish(EventKind.PAIR_CHANGED, "prefill-0>decode-0", data)


async def test_a_large_matrix_scrolls_under_its_names(tmp_path: Path) -> None:
    async with staged("huge", tmp_path, (80, 24)) as stage:
        await stage.press("5")
        await stage.until(lambda: isinstance(stage.app.screen, PairsScreen))
        matrix = stage.app.screen.query_one(PairMatrix)
        await stage.until(lambda: matrix.selected is not None)
        text = await stage.press("end")
        assert "prefill-79" in text
        assert "prefill-79 → decode-119" in text
        assert " 119" in text.splitlines()[2]
        assert "prefill-0 " not in "\n".join(text.splitlines()[3:10])


async def test_audit_and_history_follow(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (140, 34)) as stage:
        await stage.press("8")
        await stage.shows("Nobody has changed anything yet.")
        client = stage.app.client
        await client.set_mode("chunked")
        await stage.shows("set mode", "● done", "1 of 1 entries")
        await stage.press("f")
        await stage.shows("No entries pass the filter; Esc drops it.")
        await stage.press("escape", "enter")
        await stage.shows("Entry ", "by            loopback (tui)")
        await stage.press("escape", "7")
        await stage.shows("2 ● now", "mode pd -> chunked")
        await stage.press("enter")
        await stage.shows("Revision 2", "Against the revision before it", "pdctl undo --to 2")
        await stage.press("escape", "down", "equals_sign")
        await stage.shows("From revision 1 to 2", "pdctl diff 1 2")


async def test_lists_come_back_after_a_restart_of_the_server(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (140, 34)) as stage:
        await stage.press("8")
        await stage.shows("Nobody has changed anything yet.")
        stage.world.plane.started_at += 1
        stage.world.plane.feed.publish(EventKind.OPERATION, "fleet", {
            "verb": "resize", "actor": "ada", "source": "cli", "outcome": "done",
        })  # fmt: skip
        await stage.press("ctrl+r")
        await stage.shows("resize", "ada (cli)", "pdctl was started anew")
