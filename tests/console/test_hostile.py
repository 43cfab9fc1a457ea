"""What comes from outside can say anything; the console shows it and stays whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App

from pdctl.api.records import request_view
from pdctl.contract.resources import SpanView
from pdctl.domain.events import EventKind
from pdctl.domain.lifecycle import Phase, Reason
from pdctl_console.screens.logs import overwritten
from pdctl_console.screens.request import legs, summary
from pdctl_console.styled import text_of, width_of
from pdctl_console.widgets import waterfall
from tests.console.stage import staged, world_of
from tests.console.test_styled import HOSTILE
from tests.fakes.records import record

NASTY = "[bold]x[/bold] [/] [$nope] \x1b[31m\x1b[2J漢😀\u202e"
SAID = "[bold]x[/bold] [/] [$nope] 漢😀"


def assert_only_text(app: App[int]) -> None:
    """No control character in anything that is drawn."""
    for strip in app.screen._compositor.render_strips():
        assert not [char for char in strip.text if ord(char) < 32 or 127 <= ord(char) < 160]
        assert strip.cell_length == app.size.width


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_fleet_with_nasty_words(tmp_path: Path, size: tuple[int, int]) -> None:
    async with staged("normal", tmp_path, size) as stage:
        world = stage.world
        world.change("decode-0", Phase.FAILED, Reason.EXITED, NASTY)
        world.publish(EventKind.NOTICE, NASTY, {"level": NASTY, "message": NASTY, "actor": NASTY})
        world.publish(EventKind.OPERATION, NASTY, {"verb": NASTY, "outcome": NASTY})
        await stage.shows(SAID)
        assert_only_text(stage.app)
        await stage.press("down", "down", "right", "enter")
        await stage.shows("Message", SAID)
        assert_only_text(stage.app)


async def test_requests_with_nasty_words(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (200, 50)) as stage:
        world = stage.world
        done = record(world.rng, 1, world.clock.now(), (NASTY,), (NASTY,))
        done = replace(done, id="[/]-1", error=NASTY, model=NASTY, path_reason=NASTY)
        world.data_plane.queue.put_nowait(done)
        await stage.press("2")
        await stage.shows("[/]-1", SAID)
        assert_only_text(stage.app)
        await stage.press("enter")
        await stage.shows("Where its time went", "[/]-1")
        assert_only_text(stage.app)


async def test_logs_with_nasty_lines(tmp_path: Path) -> None:
    junk = "\n".join([*(line for line in HOSTILE if "\ud800" not in line), "y" * 9000, "\0" * 40])
    async with staged("normal", tmp_path, (80, 24)) as stage:
        with (tmp_path / "prefill-0.log").open("a", encoding="utf-8") as log:
            log.write(f"{junk}\nthe end\n")
        await stage.press("3")
        await stage.shows("the end")
        for _ in range(3):
            assert_only_text(stage.app)
            await stage.press("pageup")
        assert "[bold]id[/bold]" in "\n".join(await stage.log_lines())


@pytest.mark.parametrize("width", [40, 60, 78, 120, 198])
def test_waterfalls_fit(width: int) -> None:
    spans = [
        SpanView(name="queue", start_ms=0, end_ms=0, source="measured"),
        SpanView(name="decode admission + KV pull + first step", start_ms=0, end_ms=5,
                 source="derived", instance="a-very-long-instance-name-0", note=NASTY),
        SpanView(name="decode streaming", start_ms=5, end_ms=9000, source="unknown"),
        SpanView(name=NASTY, start_ms=9001, end_ms=9001, source="telepathy", instance=NASTY),
    ]  # fmt: skip
    lines = waterfall.draw(spans, width)
    assert all(width_of(line) <= width for line in lines), [text_of(line) for line in lines]
    text = "\n".join(map(text_of, lines))
    for word in ("admission", "step", "?8995 ms"):
        assert word in text


def test_one_span_and_none() -> None:
    only = SpanView(name="queue", start_ms=0, end_ms=0, source="measured")
    assert "0.00 ms" in "\n".join(map(text_of, waterfall.draw([only], 78)))
    assert text_of(waterfall.draw([], 78)[0]).startswith("No spans")


async def test_every_kind_of_request_has_a_page(tmp_path: Path) -> None:
    world = world_of("normal", tmp_path)
    for number in range(200):
        one = request_view(record(world.rng, number, world.clock.now()), {})
        lines = [*summary(one, utc=True), *waterfall.draw(one.spans, 78), *legs(one)]
        text = "\n".join(map(text_of, lines))
        assert one.id in text
        assert "None" not in text.replace("None: it was answered", "")


@pytest.mark.parametrize(
    ("line", "shown"), [("50%\r100%", "100%"), ("done\r", "done"), ("", ""), ("a\r\rb\r\r", "b")]
)
def test_of_an_overwritten_line_the_last_state_is_shown(line: str, shown: str) -> None:
    assert overwritten(line) == shown
