"""The shim's log: whole lines, bounded, never in the engine's way."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.shim import capture, records


def parts(folder: Path) -> dict[str, bytes]:
    """All parts by name."""
    return {one.name: one.read_bytes() for one in sorted(folder.glob("[0-9]*.log"))}


def test_rotation_cuts_at_line_ends_only(tmp_path: Path) -> None:
    log = capture.RotatingLog(str(tmp_path), limit=100, parts=50)
    lines = [f"line {number:04d} {'x' * (number % 37)}\n".encode() for number in range(200)]
    stream = b"".join(lines)
    for at in range(0, len(stream), 33):  # chunks that end anywhere
        log.write(stream[at : at + 33])
    log.close()
    found = parts(tmp_path)
    assert b"".join(found.values()) == stream
    assert len(found) > 10
    assert all(data.endswith(b"\n") for data in found.values())
    assert all(len(data) < 200 for data in found.values())


def test_the_first_part_stays_and_the_middle_goes(tmp_path: Path) -> None:
    log = capture.RotatingLog(str(tmp_path), limit=10, parts=3)
    for number in range(10):
        log.write(f"part {number} ...\n".encode())
    assert list(parts(tmp_path)) == ["000.log", "008.log", "009.log"]
    assert (tmp_path / records.CURRENT).readlink() == Path("009.log")
    log.close()


def test_a_line_without_end_is_bounded(tmp_path: Path) -> None:
    log = capture.RotatingLog(str(tmp_path), limit=1000, parts=4)
    for _ in range(100):
        log.write(b"\xff\x00" * 500)
    log.close()
    assert all(len(data) <= 2000 for data in parts(tmp_path).values())
    assert len(parts(tmp_path)) == 4


@pytest.mark.parametrize(
    ("below", "why"),
    [
        (["  Value error, max_model_len (9) is too much (at most 8.0). To do it, X. [type=v]"],
         "Value error, max_model_len (9) is too much (at most 8.0)"),
        (["max_num_seqs", "  Input should be greater than 0 [type=greater_than, input_value=0]"],
         "max_num_seqs: Input should be greater than 0"),
    ],
)  # fmt: skip
def test_an_error_with_its_cause_in_the_lines_below_is_told_with_it(
    below: list[str], why: str
) -> None:
    memory = capture.Memory()
    head = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"
    memory.add("\n".join([head, *below, "    For further information visit", ""]).encode())
    assert memory.first_error == f"{head}: {why}"


def test_a_headline_without_a_cause_takes_no_more_than_two_lines() -> None:
    memory = capture.Memory()
    memory.add(b"ValueError: 2 validation errors for X\none\ntwo\nthree\n")
    assert memory.first_error == "ValueError: 2 validation errors for X: one: two"


def test_answers_to_whoever_watches_are_not_among_the_last_lines() -> None:
    memory = capture.Memory()
    memory.add(b"RuntimeError: no luck\n")
    for path in ("/health", "/metrics", "/v1/models", "/version", "/load?x=1"):
        memory.add(f'INFO:     127.0.0.1:39084 - "GET {path} HTTP/1.1" 200 OK\n'.encode())
    memory.add(b'(APIServer pid=7) INFO:     127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK\n')
    memory.add(b'INFO:     127.0.0.1:2 - "GET /health HTTP/1.1" 503 Service Unavailable\n')
    memory.add(b'INFO:     127.0.0.1:3 - "POST /v1/completions HTTP/1.1" 200 OK\n')
    assert [line.split()[0] for line in memory.lines] == ["RuntimeError:", "INFO:", "INFO:"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30))
def test_lines_do_not_depend_on_where_the_stream_is_cut(chunks: list[bytes]) -> None:
    cut, whole = capture.Memory(keep=1000), capture.Memory(keep=1000)
    for chunk in chunks:
        cut.add(chunk)
    whole.add(b"".join(chunks))
    cut.close()
    whole.close()
    assert list(cut.lines) == list(whole.lines)
    assert cut.first_error == whole.first_error


def test_memory_keeps_the_last_lines_short() -> None:
    memory = capture.Memory(keep=3)
    memory.add(b"\n".join(str(n).encode() for n in range(10)) + b"\n" + b"y" * 1_000_000)
    memory.close()
    assert [line[:3] for line in memory.lines] == ["8", "9", "yyy"]
    assert len(memory.lines[-1]) == capture.LINE


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("ValueError: bad", "ValueError: bad"),
        ("torch.OutOfMemoryError: no memory", "torch.OutOfMemoryError: no memory"),
        (
            "(EngineCore pid=7) ERROR 11-30 06:23:37 [core.py:1] ValueError: Free memory",
            "ValueError: Free memory",
        ),
        ("(APIServer pid=7) OSError: [Errno 98] Address already in use",
         "OSError: [Errno 98] Address already in use"),
        ("api_server.py: error: unrecognized arguments: --x",
         "api_server.py: error: unrecognized arguments: --x"),
        ("INFO 11-30 [a.py:1] ImportError: optional thing is missing, skipped", ""),
        ("(EngineCore pid=7) WARNING 11-30 06:23:37 [x.py:1] ValueError: harmless", ""),
        ("all is well", ""),
    ],
)  # fmt: skip
def test_the_first_error_is_the_engines_own_sentence(line: str, error: str) -> None:
    memory = capture.Memory()
    memory.add(f"{line}\nRuntimeError: Engine core initialization failed.\n".encode())
    assert memory.first_error == error or (
        not error and memory.first_error.startswith("RuntimeError")
    )


class StuckLog(capture.RotatingLog):
    """A disk that answers only when it is let."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, 1 << 30, 4)
        self.go = threading.Event()

    def write(self, data: bytes) -> None:
        """Wait, then write."""
        self.go.wait(20)
        super().write(data)


def test_a_stuck_disk_stops_nobody_and_the_loss_is_told(tmp_path: Path) -> None:
    log = StuckLog(str(tmp_path))
    writer = capture.Writer(log)
    writer.start()
    chunk = b"0123456789abcde\n" * 4096
    begun = time.monotonic()
    for _ in range(3 * capture.BACKLOG // len(chunk)):
        writer.put(chunk)
    assert time.monotonic() - begun < 5, "put waited for the disk"
    assert writer.dropped > 0
    log.go.set()
    writer.finish(20)
    text = (tmp_path / "000.log").read_bytes()
    assert f"[pdctl] {writer.dropped} bytes of log were dropped".encode() in text


class FullLog(capture.RotatingLog):
    """A full disk."""

    def write(self, data: bytes) -> None:
        """Refuse."""
        raise OSError(28, "No space left on device")


def test_a_full_disk_loses_lines_but_not_the_engine(tmp_path: Path) -> None:
    writer = capture.Writer(FullLog(str(tmp_path), 100, 4))
    writer.start()
    writer.put(b"lost\n")
    writer.finish(10)
    assert not writer.is_alive()
    assert writer.dropped == 5
