"""Every test here has a cache of its own and none of the operator's variables."""

from pathlib import Path

import pytest

from pdctl.engine_env import blueprint


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The test's own cache folder; tests marked real use the user's."""
    if request.node.get_closest_marker("real") is None:
        monkeypatch.setenv(blueprint.CACHE_VARIABLE, str(tmp_path / "cache"))
        monkeypatch.delenv(blueprint.TORCH_INDEX_VARIABLE, raising=False)
        monkeypatch.delenv(blueprint.PYTHON_VARIABLE, raising=False)
    return tmp_path / "cache"
