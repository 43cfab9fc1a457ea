"""The line behind `:`, typed in a real console before a real API; roles that may not do it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdctl.api import create_api
from pdctl.domain.access import Role
from pdctl_console import command
from pdctl_console.command import Go
from pdctl_console.model import ViewState
from pdctl_console.screens.plan import PlanScreen
from pdctl_console.screens.prompt import Prompt
from pdctl_console.screens.requests import RequestsScreen
from tests.console.stage import looking, staged, world_of
from tests.fakes.admin import served
from tests.fakes.people import NAMES, PASSWORD, access


def keys(text: str) -> list[str]:
    names = {" ": "space", "=": "equals_sign", "-": "minus", ":": "colon", ">": "greater_than_sign"}
    return [names.get(one, one) for one in text]


async def test_a_verb_is_typed_completed_and_planned(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("colon", *keys("resi"))
        assert ":resi" in stage.text()
        await stage.press("tab")
        await stage.shows(":resize", "decode=  prefill=")
        await stage.press("d", "tab", "4", "enter")
        await stage.shows("Resize decode to 4?", "2p3d → 2p4d")
        await stage.press("escape", "colon", "up")
        assert ":resize decode=4" in stage.text()
        await stage.press("down", *keys("mode chunked"), "enter")
        await stage.shows("Switch to chunked?", "mode pd → chunked")
        assert isinstance(stage.app.screen, PlanScreen)


async def test_a_mistake_is_told_and_the_line_stays(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("colon", *keys("resise decode=4"), "enter")
        await stage.shows("There is no 'resise'. Did you mean 'resize'?", ":resise decode=4")
        assert isinstance(stage.app.screen, Prompt)
        await stage.press("escape", "colon", *keys("drain nobody"), "enter")
        await stage.shows("There is no instance", "nobody")


async def test_it_leads_to_screens_and_things(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("colon", *keys("req"), "enter")
        await stage.until(lambda: isinstance(stage.app.screen, RequestsScreen))
        await stage.press("colon", *keys("instance decode-0"), "enter")
        await stage.shows(" decode-0 ", "Esc closes", "side channel")
        await stage.press("escape", "colon", *keys("clear decode-0"), "enter")
        await stage.shows("Try decode-0 again?", "pdctl clear decode-0")
        await stage.press("n", "colon", *keys("keys"), "enter")
        await stage.shows("API keys of the front door", "takes everybody")
        await stage.press("escape", "colon", "q", "enter")
        assert stage.app.return_code == 0


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("fleet", Go("fleet")), ("ev", Go("events")), ("q", Go("quit")),
        ("logs decode-1", Go("logs", "decode-1")), ("requests req-1", Go("requests", "req-1")),
        ("pdctl operations op-1", Go("operations", "op-1")),
        ("signals", Go("signals")), ("operations", Go("operations")),
    ],
)  # fmt: skip
def test_where_a_line_leads(line: str, meant: Go) -> None:
    assert command.read(line) == meant


def test_completion_goes_as_far_as_there_is_one_way() -> None:
    state = ViewState()
    assert command.completed("und", state) == "und"
    assert command.completed("undo", state) == "undo "
    assert command.completed("signals sil", state) == "signals silence "
    assert command.completed("router set pref", state) == "router set prefill_policy="
    assert command.completed("nothing", state) == "nothing"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
async def test_what_a_role_may_not_is_no_verb_here(tmp_path: Path, role: Role) -> None:
    world = world_of("normal", tmp_path)
    known = access(tmp_path, world.clock)
    signed = await known.sign_in(NAMES[role], PASSWORD, "test")
    token = getattr(signed, "token", None)
    async with (
        served(create_api(world.plane, token=None, access=known)) as url,
        looking(url, world, (160, 40), token) as stage,
    ):
        await stage.settled()
        await stage.shows(f"{NAMES[role]}, {role}")
        if role is Role.OPERATOR:
            assert "Drain" in stage.text()
            await stage.press("m")
            await stage.shows("Switch to chunked?", "Bearer $PDCTL_TOKEN")
            return
        assert "Drain" not in stage.text()
        await stage.press("d")
        await stage.shows("Drain takes the role operator, and vera is viewer.")
        await stage.press("colon", *keys("resize decode=4"), "enter")
        await stage.shows("Resize takes the role operator, and vera is viewer.")
        assert len(stage.app.screen_stack) == 1
