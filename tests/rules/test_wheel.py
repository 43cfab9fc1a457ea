"""The wheel owns exactly two names, carries its data, and works in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    return next(out.glob("*.whl"))


def test_top_levels_and_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pdctl", "pdctl_console"}
    for needed in (
        "pdctl/web/templates/base.html",
        "pdctl/web/static/vendor/",
        "pdctl/adapters/migrations/env.py",
        "pdctl/adapters/migrations/versions/",
        "pdctl/engine_env/recipe/requirements.txt",
        "pdctl/engine_env/recipe/plugin/pyproject.toml",
        "pdctl_console/console.tcss",
    ):
        assert any(name.startswith(needed) for name in names), f"{needed} is not in the wheel"
    assert not [name for name in names if "__pycache__" in name]


def test_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    pdctl = venv / "bin" / "pdctl"
    version = subprocess.run([pdctl, "version"], capture_output=True, text=True, check=True)
    assert "pdctl" in version.stdout
    script = Path(__file__).with_name("wheel_smoke.py")
    out = subprocess.run(
        [python, script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert out.returncode == 0, out.stdout + out.stderr
    assert "schema at head" in out.stdout
    assert "<title>" in out.stdout
