"""Changes by keyboard and mouse: the plan is shown, applied by its id, followed, taken back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Button

from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode
from pdctl_console.screens.plan import PlanScreen
from tests.console.stage import Stage, staged


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A fleet at rest: every instance serves, so a plan has only what was asked for."""
    async with staged("normal", tmp_path, (140, 44)) as stage:
        for id_ in ("decode-1", "decode-2"):
            ready(stage, id_)
        pairs = [
            replace(pair, state="ok", handoff_ms=12.0, generations=(1, 1))
            for pair in stage.world.state.fleet.pairs
        ]
        stage.world._observe(list(stage.world.state.fleet.instances), pairs)
        await stage.until(lambda: stage.text().count("● ready") == 5)
        yield stage


def ready(stage: Stage, id_: str) -> None:
    stage.world.change(id_, Phase.READY, Reason.DESIRED, "", progress=None, drain_deadline=None)


def revision(stage: Stage) -> int:
    return stage.world.state.fleet.desired.revision


def size(stage: Stage, name: str) -> int:
    return next(pool.size for pool in stage.world.state.fleet.desired.pools if pool.name == name)


def shown_buttons(stage: Stage) -> list[str]:
    return [str(one.label) for one in stage.app.screen.query(Button) if one.display]


async def applied(stage: Stage, *shown: str) -> str:
    """The id of the operation that `y` began."""
    await stage.press("y")
    text = await stage.shows("running", *shown)
    found = re.search(r"op-[0-9a-f]{8}", text)
    assert found is not None
    return found[0]


async def test_a_mode_switch_is_a_plan_and_done_at_once(stage: Stage) -> None:
    await stage.press("m")
    await stage.shows(
        "Switch to chunked?", "mode pd → chunked", "at once",
        "new requests take chunked", "pdctl mode chunked", "/api/v1/plans",
    )  # fmt: skip
    for refusal in ("escape", "q"):
        await stage.press(refusal)
        assert revision(stage) == 1
        await stage.press("m")
        await stage.shows("new requests take chunked")
    await stage.press("y")
    await stage.shows("Done: mode pd -> chunked.", "CHUNKED")
    assert not isinstance(stage.app.screen, PlanScreen)
    assert stage.world.state.fleet.desired.mode is Mode.CHUNKED
    await stage.press("m")
    await stage.shows("new requests take pd")
    await stage.pilot.click(".apply")
    await stage.until(lambda: stage.world.state.fleet.desired.mode is Mode.PD)


async def test_sizes_by_keys_and_by_mouse(stage: Stage) -> None:
    await stage.press("plus")
    await stage.shows(
        "prefill 2 → 3", "2p3d → 3p3d", "launch", "prefill-2", "pdctl resize prefill=3"
    )
    await stage.press("right", "plus", "plus")
    await stage.shows("decode 3 → 5", "2p3d → 3p5d", "pdctl resize prefill=3 decode=5")
    await stage.press("left", "minus")
    await stage.shows("pdctl resize decode=5")
    await stage.pilot.click(".pool")
    await stage.pilot.click(".size")
    await stage.shows("pdctl resize decode=4")
    assert revision(stage) == 1, "nothing is changed by asking"
    await stage.pilot.click(".apply")
    await stage.shows("running", "decode 3 -> 4", "to come")
    assert (size(stage, "prefill"), size(stage, "decode")) == (2, 4)


async def test_only_y_applies_and_only_what_can_be_applied(stage: Stage) -> None:
    await stage.press("D")
    await stage.shows("Let prefill-0 work again?", "✗ refused")
    assert shown_buttons(stage)[-1] == "Leave (Esc)"
    await stage.press("enter", "y")
    assert revision(stage) == 1
    await stage.press("escape", "minus")
    await stage.shows("2p3d → 1p3d")
    await stage.press("enter")
    assert revision(stage) == 1, "safe is the default"
    await stage.press("y")
    await stage.shows("running")
    assert size(stage, "prefill") == 1


async def test_the_same_fleet_again_is_refused_in_words(stage: Stage) -> None:
    await stage.press("plus")
    await stage.shows("2p3d → 3p3d")
    await stage.press("minus")
    await stage.shows("the fleet is like that already")


@pytest.mark.parametrize(
    ("key", "title", "cli"),
    [
        ("r", "Restart prefill-0?", "pdctl restart prefill-0"),
        ("d", "Keep prefill-0 out of rotation?", "pdctl drain prefill-0"),
        ("x", "Stop prefill-0 for good?", "pdctl stop prefill-0"),
        ("v", "Move prefill-0 to decode?", "pdctl move prefill-0 --role decode"),
    ],
)
async def test_verbs_of_one_instance(stage: Stage, key: str, title: str, cli: str) -> None:
    await stage.press(key)
    await stage.shows(title, cli, "Capacity", "prefill-0")
    await stage.press("escape", "enter")
    await stage.shows("Esc closes", "side channel")
    await stage.press(key)
    await stage.shows(title, cli)
    await applied(stage, "prefill-0")
    assert revision(stage) == 2


async def test_a_plan_whose_world_moved_says_what_and_is_made_again(stage: Stage) -> None:
    await stage.press("plus")
    await stage.shows("2p3d → 3p3d")
    stage.world.change("decode-1", Phase.BACKOFF, Reason.EXITED, "exited with code 1")
    await stage.shows("The fleet has moved since: decode-1 is backoff, it was ready.")
    assert "Apply (y)" not in shown_buttons(stage)
    await stage.press("y")
    assert revision(stage) == 1
    await stage.press("r")
    await stage.until(lambda: "Apply (y)" in shown_buttons(stage))
    assert "has moved since" not in stage.text()
    await applied(stage)
    assert revision(stage) == 2


async def test_a_plan_that_is_refused_at_the_last_moment(stage: Stage) -> None:
    await stage.press("plus")
    await stage.shows("2p3d → 3p3d")
    here = stage.world.state
    here.set_desired(replace(here.fleet.desired, revision=7))
    await stage.press("y")
    await stage.shows("The fleet has moved since plan-", "revision 7", "HTTP 409, plan_stale")
    assert revision(stage) == 7
    await stage.press("r")
    await stage.until(lambda: "Apply (y)" in shown_buttons(stage))
    await applied(stage)


async def test_an_operation_is_followed_and_ends(stage: Stage) -> None:
    await stage.press("x")
    await stage.shows("Stop prefill-0 for good?")
    await applied(stage, "○ 1", "0 of ")
    world = stage.world
    for phase in (Phase.DRAINING, Phase.STOPPING, Phase.STOPPED):
        world.change("prefill-0", phase, Reason.SCALE_DOWN, "not wanted any more")
    await stage.shows("● 1 ", "of about")
    gone = [one for one in world.state.fleet.instances if one.id != "prefill-0"]
    pairs = [pair for pair in world.state.fleet.pairs if pair.prefill != "prefill-0"]
    world._observe(gone, pairs)
    await stage.shows("● done", "took ")
    assert shown_buttons(stage) == ["Leave (Esc)"]


async def test_cancel_asks_and_takes_back(stage: Stage) -> None:
    await stage.press("plus")
    await stage.shows("2p3d → 3p3d")
    id_ = await applied(stage)
    await stage.press("c")
    await stage.shows(
        f"Cancel {id_}?",
        f"pdctl cancel {id_} --url",
        f"/operations/{id_}/cancel",
        "is wanted again",
    )
    await stage.press("enter")
    assert size(stage, "prefill") == 3, "safe is the default"
    await stage.press("c", "y")
    await stage.shows("■ cancelled")
    assert size(stage, "prefill") == 2


async def test_leaving_a_running_operation_lets_it_go_on(stage: Stage) -> None:
    await stage.press("plus")
    await stage.shows("2p3d → 3p3d")
    id_ = await applied(stage)
    await stage.press("escape")
    await stage.shows(f"{id_} goes on")
    await stage.press("6")
    await stage.shows("◑ running", "prefill 2 -> 3", "1 of 1 operations")
    await stage.press("enter")
    await stage.shows("to come", "○ 1")
    await stage.press("escape", "c")
    await stage.shows("Cancel op-")
    await stage.press("y")
    await stage.shows("■ cancelled")
    await stage.press("c")
    await stage.shows("undo (u) goes back")


async def test_undo_of_the_last_change_and_of_a_chosen_one(stage: Stage) -> None:
    await stage.press("u")
    await stage.shows("There is nothing to undo")
    await stage.press("m")
    await stage.shows("new requests take chunked")
    await stage.press("y")
    await stage.shows("CHUNKED")
    await stage.press("u")
    await stage.shows("Go back to revision 1?", "chunked → pd", "pdctl undo --to 1")
    await stage.press("escape", "7")
    await stage.shows("2 ● now", "first start", "2 of 2 revisions")
    await stage.press("down", "u")
    await stage.shows("Go back to revision 1?", "back to revision 1")
    await stage.press("y")
    await stage.until(lambda: stage.world.state.fleet.desired.mode is Mode.PD)
    await stage.shows("3 ● now")


async def test_the_buttons_stay_in_view_at_the_smallest_size(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (80, 24)) as stage:
        await stage.press("r")
        await stage.shows("▲ risk", "Apply (y)", "Leave (Esc)")
        assert "The same elsewhere" not in stage.text()
        await stage.press("end")
        await stage.shows("pdctl restart prefill-0", "Apply (y)")
        await stage.pilot.click(".leave")
        assert not isinstance(stage.app.screen, PlanScreen)


async def test_growing_an_empty_fleet(tmp_path: Path) -> None:
    async with staged("empty", tmp_path) as stage:
        await stage.press("plus")
        await stage.shows("prefill 1 → 2", "1p1d → 2p1d", "no start of decode")
