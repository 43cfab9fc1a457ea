"""What the console says of its own connection, and how it looks in other themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdctl.api import create_api
from pdctl_console.app import ConsoleApp
from tests.console.stage import looking, staged, world_of
from tests.fakes.admin import served


def inks(app: ConsoleApp) -> set[str]:
    """Every colour in view, as r,g,b."""
    found = set()
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None and segment.style.color is not None:
                found.add(str(segment.style.color.triplet))
    return found


async def test_without_the_token_it_says_what_to_do(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (80, 24), token="secret", known=False) as stage:
        text = await stage.shows("✗ refused", "--token-file")
        assert "Nothing is known of the fleet yet." in text
        assert "Not connected yet." in await stage.press("m")
        for key in ("2", "3", "1", "enter", "l", "y", "r", "c", "f", "w"):
            await stage.press(key)


async def test_with_the_token_it_is_let_in(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, token="secret") as stage:
        assert "● live" in stage.text()


async def test_nothing_answers(tmp_path: Path) -> None:
    async with looking("http://127.0.0.1:9", world_of("normal", tmp_path), (80, 24)) as stage:
        text = await stage.shows("cannot be reached", "Retrying.", "Is `pdctl serve` running")
        assert "What you see is" not in text, "nothing is shown that could be old"


async def test_what_is_old_is_marked_and_comes_back(tmp_path: Path) -> None:
    world = world_of("normal", tmp_path)
    server = served(create_api(world.plane, token=None))
    url = await server.__aenter__()
    async with looking(url, world) as stage:
        try:
            await stage.settled()
            fresh = stage.app.screen.query_one("#instances").styles.opacity
        finally:
            await server.__aexit__(None, None, None)
        await stage.shows("✗ not connected", "What you see is 0s old.")
        assert stage.app.screen.query_one("#instances").styles.opacity < fresh
        await stage.press("m")
        await stage.shows("Switch to chunked?", "cannot be reached", "Plan again (r)")
        assert "Apply" not in await stage.press("y"), "there is no plan to apply"
        await stage.press("escape")
        port = int(url.rpartition(":")[2])
        async with served(create_api(world.plane, token=None), port):
            await stage.shows("● live")
            assert "not connected" not in stage.text()


async def test_a_new_theme_repaints_tables(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        before = inks(stage.app)
        stage.app.theme = "textual-light"
        await stage.pilot.pause()
        assert inks(stage.app).isdisjoint(before - {"None"})


async def test_no_color(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with staged("normal", tmp_path) as stage:
        assert stage.app.no_color
        assert "● ready" in stage.text()
        svg = stage.app.export_screenshot()
    colours = set(re.findall(r"-r\d+ \{ fill: (#\w{6})", svg)) - {
        "#c5c8c6"
    }  # what the picture draws uncoloured text in
    assert colours
    assert [one for one in colours if not one[1:3] == one[3:5] == one[5:7]] == []
