"""Reading logs: tails over parts, following over rotation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.adapters.launchers.orders import until

from pdctl.adapters.supervision import logs
from pdctl.shim import capture, records


def written(folder: Path, *chunks: bytes, limit: int = 100, parts: int = 9) -> capture.RotatingLog:
    """A log with these bytes."""
    log = capture.RotatingLog(str(folder), limit, parts)
    for chunk in chunks:
        log.write(chunk)
    return log


def numbered(count: int) -> list[str]:
    """Some lines."""
    return [f"line {number:05d}" for number in range(count)]


def test_a_tail_goes_over_parts(tmp_path: Path) -> None:
    lines = numbered(100)
    written(tmp_path, *(f"{line}\n".encode() for line in lines), parts=99).close()
    assert len(logs.parts(tmp_path)) > 5
    for path in (tmp_path, tmp_path / records.CURRENT, tmp_path / "000.log"):
        assert logs.read_tail(path, 30) == lines[-30:]
    assert logs.read_tail(tmp_path, 1000) == lines
    assert logs.read_tail(tmp_path, 0) == []


def test_an_absent_log_is_empty(tmp_path: Path) -> None:
    assert logs.read_tail(tmp_path / "no" / records.CURRENT, 10) == []


def test_what_is_shown_is_fit_to_be_shown(tmp_path: Path) -> None:
    written(
        tmp_path,
        b"\xff\xfe broken\n",
        b"\r 10%\r 50%\r100%\n",
        b"HF_TOKEN=hf_abcdefgh\n",
        b"x" * 200_000 + b"\n",
        limit=1 << 20,
    ).close()
    *lines, long = logs.read_tail(tmp_path, 10)
    assert lines == ["\ufffd\ufffd broken", "100%", "HF_TOKEN=***"]
    assert len(long) == logs.LONGEST


def test_a_cursor_reads_each_line_once(tmp_path: Path) -> None:
    cursor = logs.Cursor(tmp_path)
    assert cursor.read() == []
    log = written(tmp_path, b"one\ntw")
    assert cursor.read() == ["one"]
    log.write(b"o\nthree\n")
    assert cursor.read() == ["two", "three"]
    log.close()


async def test_follow_survives_rotation(tmp_path: Path) -> None:
    lines = numbered(300)
    log = written(tmp_path, *(f"{line}\n".encode() for line in lines[:20]), parts=99)
    seen: list[str] = []

    async def read() -> None:
        async for line in logs.follow(tmp_path / records.CURRENT, 5, pause_s=0.01):
            seen.append(line)  # noqa: PERF401 - the test looks at it while it grows

    reader = asyncio.ensure_future(read())
    await until(lambda: seen == lines[15:20])
    for line in lines[20:]:
        log.write(f"{line}\n".encode())
        await asyncio.sleep(0)
    log.close()
    await until(lambda: len(seen) >= 285)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    assert seen == lines[15:]
