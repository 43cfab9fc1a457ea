"""Frames are short in tests: nobody's eyes have to follow."""

from __future__ import annotations

import pytest

from pdctl_console import follower
from pdctl_console.screens import logs


@pytest.fixture(autouse=True)
def _short_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (follower, logs):
        monkeypatch.setattr(module, "FRAME_S", 0.1)
