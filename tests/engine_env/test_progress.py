"""A reader can tell work from a hang, on a terminal and in a log."""

import io

from pdctl.engine_env import StderrProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_log_gets_a_line_per_phase_and_not_one_per_tick() -> None:
    stream = io.StringIO()
    progress = StderrProgress(stream)
    progress.phase("installing")
    for number in range(50):
        progress.tick(f"package {number}")
    progress.phase("verifying")
    progress.done()
    lines = stream.getvalue().splitlines()
    assert [line.split("] ")[1].split(":")[0] for line in lines] == [
        "installing",
        "installing",
        "verifying",
        "verifying",
    ]
    assert lines[1].endswith(" s")
    assert "\x1b" not in stream.getvalue()


def test_terminal_line_is_redrawn_within_its_width() -> None:
    stream = Terminal()
    progress = StderrProgress(stream)
    progress.phase("installing")
    progress.note("kept")
    assert stream.getvalue().count("\r\x1b[K") >= 2
    assert "kept\n" in stream.getvalue()
    assert all(len(part) < 200 for part in stream.getvalue().split("\r\x1b[K"))


def test_done_twice_says_nothing_twice() -> None:
    stream = io.StringIO()
    progress = StderrProgress(stream)
    progress.phase("one")
    progress.done()
    before = stream.getvalue()
    progress.done()
    assert stream.getvalue() == before
