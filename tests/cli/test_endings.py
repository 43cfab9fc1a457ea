"""How the command ends: one exit code per kind of failure, quiet pipes, Ctrl-C, no traces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Live

from pdctl.cli.terminal import SIMULATED, ExitCode, Stop, clean, explain
from pdctl.client.errors import ClientError, Conflict, Denied, Failed, NotFound, Unreachable
from pdctl.contract.problems import Problem
from pdctl.domain.errors import ConflictError, EngineError, InternalError, OperatorError
from pdctl.engine_env import EngineError as NoEngine

PROBLEM = Problem(title="t", status=409, detail="It moved.", hint="Look again.")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unreachable(PROBLEM), ExitCode.UNREACHABLE),
        (Denied(PROBLEM), ExitCode.DENIED),
        (Conflict(PROBLEM), ExitCode.CONFLICT),
        (NotFound(PROBLEM), ExitCode.FAILED),
        (Failed(PROBLEM), ExitCode.FAILED),
        (ClientError(PROBLEM), ExitCode.FAILED),
        (ConflictError("c", "It moved.", "Look again."), ExitCode.CONFLICT),
        (OperatorError("c", "It moved.", "Look again."), ExitCode.USAGE),
        (EngineError("c", "It moved.", "Look again."), ExitCode.FAILED),
        (InternalError("c", "It moved.", "Look again."), ExitCode.FAILED),
        (NoEngine("It moved. Look again."), ExitCode.FAILED),
        (Stop(ExitCode.TIMEOUT, "It moved. Look again."), ExitCode.TIMEOUT),
        (ExceptionGroup("x", [ExceptionGroup("y", [Conflict(PROBLEM)])]), ExitCode.CONFLICT),
    ],
)
def test_each_failure_has_its_code_and_its_sentence(error: Exception, code: ExitCode) -> None:
    assert explain(error) == (code, "It moved. Look again.")


def test_the_unexpected_is_a_sentence_too() -> None:
    code, said = explain(KeyError("x"))
    assert code == ExitCode.FAILED
    assert "KeyError" in said
    assert "PDCTL_DEBUG=1" in said
    code, said = explain(PermissionError(13, "Permission denied", "/x"))
    assert said == "Permission denied (/x)."


def test_logs_cannot_drive_the_terminal() -> None:
    assert clean("a\x1b[31mred\x1b[0m\x1b]0;title\x07 b\tc\n\x00") == "ared0;title b\tc\n"


def environment(url: str) -> dict[str, str]:
    return {**os.environ, "PDCTL_URL": url, "PYTHONUNBUFFERED": "1"}


def test_a_reader_that_leaves_is_no_failure(live: Live) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pdctl", "logs", "-f", "decode-0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(live.url),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            live.do(live.world.tick)  # it notices with its next write
            time.sleep(0.05)
        assert process.poll() == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    "words",
    [("events", "--follow"), ("status", "--watch", "--json"), ("requests", "--follow", "--json")],
)
def test_control_c_while_following(live: Live, words: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pdctl", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(live.url),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read().decode() in ("", f"{SIMULATED}\n")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PDCTL_ADMIN_PORT", "abc", "PDCTL_ADMIN_PORT must be a port from 1 to 65535, not 'abc'."),
        ("PDCTL_ADMIN_PORT", "70000", "PDCTL_ADMIN_PORT must be a port"),
        ("PDCTL_URL", "localhost:8080", "The admin address cannot be 'localhost:8080'"),
        ("PDCTL_URL", "http://127.0.0.1:99999", "The admin address cannot be"),
    ],
)
def test_an_address_that_is_none_is_wrong_usage(variable: str, value: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pdctl", "status"], capture_output=True, text=True, check=False,
        env={**os.environ, variable: value},
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("debug", [False, True])
def test_traces_only_when_asked_for(tmp_path: Path, debug: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pdctl", "status", "--url", "http://127.0.0.1:1"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PDCTL_DEBUG": "1" if debug else ""},
    )  # fmt: skip
    assert done.returncode == 4
    assert ("Traceback" in done.stderr) is debug
