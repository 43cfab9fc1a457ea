"""tools/setup.sh: whatever it is interrupted in, the next run starts afresh and ends whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "setup.sh"
FAKE = """#!/bin/bash
# Stands in for Python: checks are the real one's, an environment is a folder with this script.
case "$1 $2" in
  "-c "*) exec {python} "$@" ;;
  "-m venv") mkdir -p "$3/bin"; echo half > "$3/pyvenv.cfg"; hold venv; cp "$0" "$3/bin/python" ;;
  "-m pip") [ "$3" = --version ] || hold pip ;;
esac
"""
HOLD = """#!/bin/bash
# Waits in the step that is to be interrupted.
if [ "$HOLD" = "$1" ]; then touch held; sleep 60; fi
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def start(folder: Path, hold: str = "") -> subprocess.Popen[str]:
    env = {
        **os.environ, "PYTHON": str(folder / "tools" / "python"), "VENV": ".venv", "HOLD": hold,
        "PATH": f"{folder / 'tools'}:{os.environ['PATH']}",
    }  # fmt: skip
    return subprocess.Popen(
        ["bash", str(SCRIPT)], cwd=folder, env=env, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=_heed_interrupts,  # noqa: PLW1509 - no threads here
    )  # fmt: skip


def _heed_interrupts() -> None:
    """What a shell started in the background ignores SIGINT, and bash cannot trap it then."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_an_interrupted_set_up_is_started_afresh(tmp_path: Path, step: str) -> None:
    executable(tmp_path / "tools" / "python", FAKE.format(python=sys.executable))
    executable(tmp_path / "tools" / "hold", HOLD)
    with start(tmp_path, step) as process:
        end = time.monotonic() + 30
        while not (tmp_path / "held").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        assert process.returncode != 0
    assert "interrupted; the next run starts afresh" in said
    assert not (tmp_path / ".venv" / ".complete").exists()
    (tmp_path / ".venv" / "leftover").touch()
    with start(tmp_path) as process:
        assert "creating .venv" in process.communicate(timeout=30)[1]
        assert process.returncode == 0
    assert (tmp_path / ".venv" / ".complete").exists()
    assert not (tmp_path / ".venv" / ".unfinished").exists()
    assert not (tmp_path / ".venv" / "leftover").exists()
    with start(tmp_path) as process:  # a changed requirement: brought up to date in place
        assert "creating" not in process.communicate(timeout=30)[1]


def test_an_environment_without_pip_is_made_anew(tmp_path: Path) -> None:
    executable(tmp_path / "tools" / "python", FAKE.format(python=sys.executable))
    executable(tmp_path / "tools" / "hold", HOLD)
    (tmp_path / ".venv").mkdir()
    executable(tmp_path / ".venv" / "bin" / "python", "#!/bin/bash\nexit 1\n")
    with start(tmp_path) as process:
        assert "creating .venv" in process.communicate(timeout=30)[1]
        assert process.returncode == 0
