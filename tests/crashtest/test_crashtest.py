"""The tool itself, for a few rounds: it kills, what must hold holds, and nothing is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crashtest.__main__ import main
from crashtest.scene import Kind

SEED = 7
ROUNDS = 5


def test_a_few_rounds_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    words = ["--rounds", str(ROUNDS), "--seed", str(SEED), "--dir", str(tmp_path), "--json"]
    code = main(words, lines.append)
    told = json.loads(capsys.readouterr().out)
    assert (code, told["complaints"]) == (0, []), "\n".join(lines)
    assert (told["rounds"], told["seed"]) == (ROUNDS, SEED)
    assert ROUNDS <= sum(told["victims"].values()) <= 3 * ROUNDS
    assert told["victims"][Kind.CONTROL] > 0, "a seed whose victims include the control plane"
    assert told["requests"]["whole"] > ROUNDS


def test_what_is_asked_wrongly_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--shape", "2x2"])
    assert ended.value.code == 2
    assert "--shape" in capsys.readouterr().err
