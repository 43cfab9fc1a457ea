"""A machine with nothing on it, by the virtual clock."""

from __future__ import annotations

import pytest

from tests.fakes.clock import VirtualClock
from tests.fakes.machine import World


@pytest.fixture
def world() -> World:
    """An empty machine."""
    return World(VirtualClock())
