"""Secrets by reference are read at launch, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdctl.domain.errors import EngineError
from pdctl.fleetfile.references import resolve


def test_values_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("MINE", "from the environment")
    given = (("A", "env:MINE"), ("B", f"file:{tmp_path / 'key'}"), ("C", "tcp,sm"), ("D", "env:"))
    assert resolve(given) == {
        "A": "from the environment", "B": "from a file", "C": "tcp,sm", "D": "env:",
    }  # fmt: skip


def test_what_is_gone_is_named_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MINE", raising=False)
    with pytest.raises(EngineError, match=r"HF_TOKEN refers to the environment variable MINE"):
        resolve([("HF_TOKEN", "env:MINE")])
    with pytest.raises(EngineError, match=r"cannot be read: No such file"):
        resolve([("HF_TOKEN", f"file:{tmp_path / 'none'}")])
