"""Starts that come to nothing leave nothing: no process, no zombie, no engine without an owner."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.adapters.launchers.orders import command, order, until

from pdctl.adapters.launchers.subprocess import SubprocessLauncher
from pdctl.domain.errors import EngineError
from pdctl.shim import procfs

SLEEP = "import time; time.sleep(600)"


def children() -> set[int]:
    """Our own children, dead ones that nobody reaped included."""
    return {pid for pid, one in procfs.everyone().items() if one.parent == os.getpid()}


async def test_a_shim_that_says_nothing_is_ended_and_not_forgotten_alive(
    launcher: SubprocessLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = tmp_path / "mute.py"
    mute.write_text("import time; time.sleep(600)")
    monkeypatch.setattr("pdctl.adapters.supervision.spawning.PROGRAM", mute)
    monkeypatch.setattr("pdctl.adapters.supervision.spawning.DEADLINE_S", 0.3)
    before = children()
    with pytest.raises(EngineError, match="before it started the engine"):
        await launcher.launch(order(SLEEP))
    assert children() == before
    task = asyncio.ensure_future(launcher.launch(order(SLEEP)))
    await until(lambda: children() != before)
    task.cancel()
    await asyncio.wait([task])
    assert children() == before


async def test_a_start_that_fails_leaves_no_zombie(launcher: SubprocessLauncher) -> None:
    before = children()
    with pytest.raises(EngineError):
        await launcher.launch(command("/nowhere/python"))
    assert children() == before
