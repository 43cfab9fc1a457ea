"""A launcher on a folder of its own; whatever a test leaves running is ended afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pdctl.adapters.clock import SystemClock
from pdctl.adapters.launchers.subprocess import SubprocessLauncher


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[SubprocessLauncher]:
    """A launcher with a small log."""
    one = SubprocessLauncher(tmp_path / "run", SystemClock())
    yield one
    for running in await one.list():
        await one.kill(running.order.nonce)
    await one.close()
