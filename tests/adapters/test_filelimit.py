"""The limit on open files, raised in a process of its own: the tests' own stays as it is."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

RAISE = """
import resource
from pdctl.adapters.filelimit import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("soft", "hard"), [(64, 300), (300, 300)])
def test_the_soft_limit_becomes_the_hard_one(soft: int, hard: int) -> None:
    assert hard <= resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code = RAISE.format(soft=soft, hard=hard)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["300", "300", "300"]
