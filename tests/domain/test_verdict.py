"""What a process died of: certain things by name, everything else as it was said."""

from __future__ import annotations

import pytest

from pdctl.domain.instance import ExitInfo
from pdctl.domain.lifecycle import Reason
from pdctl.domain.retry import backoff_s
from pdctl.domain.verdict import judge

CONFIG = [
    "api_server.py: error: unrecognized arguments: --nope",
    "api_server.py: error: argument --dtype: invalid choice: 'float17'",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
    "ValueError: Free memory on device (10/80 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 72 GiB). Decrease GPU memory utilization.",
    "OSError: /models/none is not a local folder and is not a valid model identifier listed on",
    "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens "
    "that can be stored in KV cache (23456).",
    "ModuleNotFoundError: No module named 'vllm'",
]


@pytest.mark.parametrize("line", CONFIG)
def test_what_would_fail_for_ever_is_a_configuration_error(line: str) -> None:
    found = judge(ExitInfo(1, None, 0.0, ("loading", line), line), was_up=False)
    assert found.reason is Reason.CONFIG_ERROR
    assert line in found.message


@pytest.mark.parametrize("line", CONFIG)
def test_the_same_words_of_one_that_served_are_a_crash(line: str) -> None:
    assert judge(ExitInfo(1, None, 0.0, (line,), line), was_up=True).reason is Reason.EXITED


def test_argparse_is_known_by_its_exit_code() -> None:
    found = judge(ExitInfo(2, None, 0.0, ("usage: x", "x: bad")), was_up=False)
    assert found.reason is Reason.CONFIG_ERROR
    assert found.message.endswith("x: bad")


def test_a_taken_port_is_a_race_even_when_a_stranger_answered_for_it() -> None:
    line = "OSError: [Errno 98] Address already in use"
    assert judge(ExitInfo(1, None, 0.0, (line,), line), was_up=True).reason is Reason.PORT_RACE


@pytest.mark.parametrize(
    ("exit_", "message"),
    [
        (None, "its process is gone and left no record of its end"),
        (ExitInfo(None, 9, 0.0, ("INFO: 3 running",)), "killed by signal 9 (SIGKILL)"),
        (ExitInfo(None, 11, 0.0, ("x",), "Segmentation fault"),
         "killed by signal 11 (SIGSEGV): Segmentation fault"),
        (ExitInfo(0, None, 0.0, ("bye", "")), "exited with code 0: bye"),
        (ExitInfo(1, None, 0.0, ("y",), "RuntimeError: x"), "exited with code 1: RuntimeError: x"),
        (ExitInfo(None, None, 0.0), "ended"),
    ],
)  # fmt: skip
def test_everything_else_says_how_and_why(exit_: ExitInfo | None, message: str) -> None:
    found = judge(exit_, was_up=True)
    assert found.reason is Reason.EXITED
    assert found.message == message


OLD = "OSError: [Errno 98] Address already in use"


@pytest.mark.parametrize("was_up", [True, False])
def test_a_signal_is_the_cause_and_an_old_line_of_the_log_is_not(*, was_up: bool) -> None:
    found = judge(ExitInfo(None, 9, 0.0, (OLD,), OLD), was_up=was_up)
    assert found.reason is Reason.EXITED
    assert found.message == f"killed by signal 9 (SIGKILL); the first error in its log: {OLD}"


@pytest.mark.parametrize("was_up", [True, False])
def test_what_its_supervisor_knows_wins_over_the_log(*, was_up: bool) -> None:
    why = "The instance's supervisor was killed."
    found = judge(ExitInfo(None, None, 0.0, (OLD, CONFIG[0]), why), was_up=was_up)
    assert found.reason is Reason.EXITED
    assert found.message == f"ended: {why}"


def test_backoff_doubles_to_its_cap_with_the_same_jitter_every_time() -> None:
    pauses = [backoff_s(n, "decode-0") for n in range(1, 14)]
    for n, pause in enumerate(pauses[:8]):
        assert 2**n <= pause <= 2**n * 1.1
    assert pauses == sorted(pauses)
    assert pauses[-1] == 300.0
    assert backoff_s(3, "decode-0") == backoff_s(3, "decode-0")
    assert backoff_s(3, "decode-0") != backoff_s(3, "decode-1")
