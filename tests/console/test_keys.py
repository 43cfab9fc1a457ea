"""Every key and every dialog, pressed in a real console before a real API."""

from __future__ import annotations

from pathlib import Path

from pdctl.domain.lifecycle import Phase, Reason
from pdctl_console.screens.audit import AuditScreen
from pdctl_console.screens.events import EventsScreen
from pdctl_console.screens.fleet import FleetScreen
from pdctl_console.screens.history import HistoryScreen
from pdctl_console.screens.logs import LogsScreen
from pdctl_console.screens.operations import OperationsScreen
from pdctl_console.screens.pairs import PairsScreen
from pdctl_console.screens.request import RequestScreen
from pdctl_console.screens.requests import RequestsScreen
from pdctl_console.widgets.line_log import LineLog
from pdctl_console.widgets.row_table import RowTable
from tests.console.stage import Stage, staged

RESTART = "Start it without --read-only."


def here(stage: Stage, id_: str = "#requests") -> RowTable:
    return stage.app.screen.query_one(id_, RowTable)


async def test_screens_and_tabs(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        for key, screen in (
            ("2", RequestsScreen), ("3", LogsScreen), ("4", EventsScreen), ("5", PairsScreen),
            ("6", OperationsScreen), ("7", HistoryScreen), ("8", AuditScreen), ("1", FleetScreen),
        ):  # fmt: skip
            await stage.press(key)
            assert isinstance(stage.app.screen, screen)
        await stage.pilot.click("#status", offset=(10, 0))
        assert isinstance(stage.app.screen, RequestsScreen)
        await stage.press("ctrl+p", *"pairs", "enter")
        await stage.until(lambda: isinstance(stage.app.screen, PairsScreen))
        await stage.press("q")
        assert stage.app.return_code == 0


async def test_clear(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("c")
        await stage.shows("Try prefill-0 again?")
        await stage.press("enter")
        assert "Try prefill-0 again?" not in stage.text(), "safe is the default"
        await stage.press("c", "y")
        await stage.shows("prefill-0 has not been given up.", "HTTP 409, not_failed")
        assert "That did not work" not in await stage.press("escape")


async def test_read_only_refuses_every_verb_in_words(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, read_only=True) as stage:
        text = stage.text()
        assert "read-only" in text
        for shown in (" Mode", "Restart", "Drain", "Size"):
            assert shown not in text
        for key, said in (
            ("m", "Mode"), ("r", "Restart"), ("d", "Drain"), ("D", "Undrain"), ("v", "Move"),
            ("x", "Stop"), ("plus", "Size"), ("minus", "One less"),
            ("u", "Undo the last change"), ("c", "Clear failure"),
        ):  # fmt: skip
            await stage.press(key)
            await stage.until(lambda: bool(stage.app._notifications))
            told = [one.message for one in stage.app._notifications]
            assert told == [f"This console is read-only and cannot do that: {said}. {RESTART}"]
            stage.app.clear_notifications()
            assert len(stage.app.screen_stack) == 1
        assert "Restart" not in await stage.press("question_mark")
        await stage.press("escape", "enter")
        assert "Restart" not in await stage.shows("Esc closes")
        await stage.press("r")
        await stage.shows("cannot do that: Restart")
        await stage.press("escape", "6", "c", "7", "u")
        await stage.settled()
        assert len(stage.app.screen_stack) == 1
        assert stage.world.state.fleet.desired.revision == 1


async def test_ctrl_c_tells_the_key_that_leaves(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("ctrl+c")
        text = await stage.shows("q leaves a dialog")
        assert "ctrl+q" not in text


async def test_help_tells_the_keys_that_work(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (120, 60)) as stage:
        text = await stage.press("question_mark")
        for key, said in (("l", "Log"), ("r", "Restart"), ("Ctrl+R", "Ask for everything again")):
            assert f"  {key:<14}{said}" in text
        assert await stage.press("question_mark") == text
        await stage.press("q")
        assert "Filter" not in text
        await stage.press("2")
        assert "Filter" in await stage.press("question_mark")


async def test_the_instance_dialog_is_live(tmp_path: Path) -> None:
    async with staged("failing", tmp_path) as stage:
        text = await stage.press("enter")
        for part in ("✗ failed", "Failures       3", "First error", "torch.OutOfMemoryError"):
            assert part in text
        stage.world.change("prefill-0", Phase.LOADING, Reason.DESIRED, "loading again")
        await stage.shows("◑ loading", "Message        loading again")
        await stage.press("y")
        await stage.shows("Command", "-m pdctl.simulated")
        await stage.press("escape", "l")
        await stage.until(lambda: isinstance(stage.app.screen, LogsScreen))
        await stage.shows(" prefill-0 ")


async def test_the_fleet_table(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        table = here(stage, "#instances")
        await stage.press("j", "down")
        assert table.selected_key == "decode-0"
        await stage.press("end", "k")
        assert table.selected_key == "decode-1"
        stage.world.change("prefill-0", Phase.READY, Reason.DESIRED, "")
        assert "prefill-0" not in (await stage.press("f")).split("Router")[0]
        assert table.selected_key == "decode-1", "the cursor stays on its instance"
        await stage.press("f", "l")
        await stage.shows(" decode-1 ", "4 of 5")


async def test_latency_windows_and_zones(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        assert "last 5 minutes" in stage.text()
        for name in ("last hour", "since start", "last minute", "last 5 minutes"):
            assert name in await stage.press("w")
            await stage.settled()
        assert " 08:16:40 " in stage.text()
        assert "Times are local." in await stage.press("z")
        assert "Times are UTC." in await stage.press("z")
        await stage.press("ctrl+r")
        await stage.settled()


async def test_filters_of_the_requests(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (200, 50)) as stage:
        await stage.press("2")
        await stage.settled()
        assert "100 of the last 100, newest first" in stage.text()
        text = await stage.press("f")
        assert "● ok" not in text
        assert "only those that failed" in text
        text = await stage.press("f", "slash", *"decode-2", "enter")
        assert "with decode-2" in text
        assert all("decode-2" in row for row in text.splitlines()[4:-1] if row)
        text = await stage.press("s")
        assert "slowest first" in text
        await stage.press("escape")
        assert "100 of the last 100, newest first" in stage.text()
        assert "No request passes the filter." in await stage.press("slash", *"[/]")


async def test_requests_hold_still_when_paused(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("2")
        await stage.settled()
        await stage.press("space")
        before = stage.text().splitlines()[3:]
        stage.world.tick()
        await stage.shows("paused, 3 newer")
        assert stage.text().splitlines()[3:] == before
        await stage.press("space")
        assert stage.text().splitlines()[3:] != before


async def test_the_cursor_stays_on_its_request(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("2")
        await stage.settled()
        table, oldest = here(stage), stage.app.state.requests[0].id
        stage.world.tick()
        await stage.until(lambda: [row[0] for row in table._rows].index(oldest) == 3)
        assert table.cursor == 0, "at the top it stays at the newest"
        await stage.press("j", "j")
        kept, y = table.selected_key, table.cursor - table.scroll_offset.y
        stage.world.tick()
        await stage.until(lambda: table.cursor == 5)
        assert (table.selected_key, table.cursor - table.scroll_offset.y) == (kept, y)


async def test_the_waterfall_and_back(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (80, 24)) as stage:
        await stage.press("2")
        await stage.settled()
        await stage.press("j", "enter")
        await stage.until(lambda: isinstance(stage.app.screen, RequestScreen))
        text = await stage.press("end")
        assert "the engine says" in text
        assert await stage.press("home") != ""
        await stage.press("q")
        assert isinstance(stage.app.screen, RequestsScreen)
        await stage.pilot.click("#requests", offset=(20, 4))
        assert here(stage).cursor == 3
        await stage.pilot.click("#requests", offset=(20, 4))
        await stage.until(lambda: isinstance(stage.app.screen, RequestScreen))


async def test_columns_to_the_side(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (80, 24)) as stage:
        await stage.press("2")
        await stage.settled()
        assert "req-" not in stage.text()
        text = await stage.press("right", "right", "right")
        assert "req-" in text
        assert "Request" in text
        assert "Outcome" in await stage.press("left", "left", "left")


async def test_logs_follow_pause_and_go_back(tmp_path: Path) -> None:
    async with staged("failing", tmp_path) as stage:
        await stage.press("3")
        assert len(await stage.log_lines()) == 30
        log = tmp_path / "prefill-0.log"
        _append(log, "first new\n")
        await stage.shows("first new")
        await stage.press("space")
        _append(log, "while paused\n")
        await stage.shows("paused, 1 new lines")
        assert "while paused" not in stage.text()
        await stage.press("space")
        await stage.shows("while paused")
        await stage.press("P")
        await stage.shows("previous start", "torch.OutOfMemoryError", "EngineCore failed")
        await stage.press("P")
        await stage.shows("while paused")


async def test_logs_of_other_instances(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("3")
        await stage.log_lines()
        await stage.press("n")
        await stage.shows(" prefill-1 ", "2 of 5")
        await stage.press("b", "b")
        await stage.shows(" decode-2 ", "5 of 5")
        await stage.press("i", *"e-1", "enter")
        await stage.shows(" decode-1 ", "4 of 5")
        await stage.press("P")
        await stage.shows("decode-1 has no log of an earlier start.")
        await stage.press("i", "escape")
        assert isinstance(stage.app.screen, LogsScreen)


async def test_a_log_is_followed_again_after_a_restart_of_its_instance(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("3")
        await stage.log_lines()
        (tmp_path / "prefill-0.log").write_text("the second start\n", encoding="utf-8")
        stage.world.change("prefill-0", Phase.STARTING, Reason.EXITED, "", generation=2)
        await stage.until(lambda: "the second start" in stage.text())
        assert "Engine 000" not in stage.text()


async def test_nobody_reads_logs_that_are_not_in_view(tmp_path: Path) -> None:
    async with staged("normal", tmp_path) as stage:
        await stage.press("3")
        await stage.log_lines()
        screen = stage.app.screen
        assert isinstance(screen, LogsScreen)
        assert screen._worker is not None
        await stage.press("1")
        assert screen._worker is None
        _append(tmp_path / "prefill-0.log", "while away\n")
        await stage.press("3")
        await stage.shows("while away")


async def test_scrolling_up_holds_the_log_and_end_follows(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (80, 24)) as stage:
        await stage.press("3")
        await stage.log_lines()
        await stage.press("home")
        await stage.shows("scrolled up")
        before = stage.text().splitlines()[2:]
        _append(tmp_path / "prefill-0.log", "x" * 200 + " the end\n")
        log = stage.app.screen.query_one(LineLog)
        await stage.until(lambda: len(log.lines) == 31)
        after = stage.text().splitlines()[2:]
        assert [row[:70].strip() for row in after] == [row[:70].strip() for row in before]
        assert "the end" in await stage.press("G")
        assert "the end" not in await stage.press("w")


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as log:
        log.write(text)
