"""The folder's name follows from everything that shapes an environment, and from nothing else."""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine_env.small_recipe import fixed_interpreter

from pdctl.engine_env import Blueprint, EngineError
from pdctl.engine_env.blueprint import (
    PYTHON_VARIABLE,
    RECIPE,
    Interpreter,
    base_interpreter,
    engines_folder,
)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A copy of the real recipe that a test may change."""
    return Path(shutil.copytree(RECIPE, tmp_path / "recipe"))


def key(recipe: Path, version: str = "3.11") -> str:
    return Blueprint(recipe=recipe, interpreter=Interpreter(Path("/x"), version)).key()


@pytest.mark.parametrize(
    "file",
    [
        "lock.txt",
        "requirements.txt",
        "make_model.py",
        "verify.py",
        "plugin/pyproject.toml",
        "plugin/pdctl_cpu_engine.py",
    ],
)
def test_key_follows_every_file_of_the_recipe(recipe: Path, file: str) -> None:
    before = key(recipe)
    with (recipe / file).open("a") as target:
        target.write("\n")
    assert key(recipe) != before


def test_key_follows_the_interpreter_and_what_is_checked(recipe: Path) -> None:
    plan = Blueprint(recipe=recipe, interpreter=fixed_interpreter())
    assert key(recipe, "3.11") != key(recipe, "3.12")
    assert replace(plan, absent=()).key() != plan.key()
    assert replace(plan, imports=("torch",)).key() != plan.key()


def test_key_ignores_what_python_leaves_behind_and_where_the_recipe_lies(
    recipe: Path, tmp_path: Path
) -> None:
    before = key(recipe)
    (recipe / "__pycache__").mkdir()
    (recipe / "__pycache__" / "verify.cpython-311.pyc").write_bytes(b"x")
    (recipe / "verify.py~").write_text("an editor's copy")
    assert key(recipe) == before
    assert key(Path(shutil.copytree(recipe, tmp_path / "elsewhere"))) == before


def test_lock_pins_the_named_engine_and_leaves_out_what_breaks_it() -> None:
    lines = (RECIPE / "lock.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.match(r"^[A-Za-z0-9._-]+==[^\s;]+( ; .+)?$", pin) for pin in pins)
    names = {pin.split("==")[0].lower() for pin in pins}
    assert not names & {"torchvision", "torchaudio", "torchcodec"}
    wanted = (RECIPE / "requirements.txt").read_text().splitlines()
    assert {line for line in wanted if line and not line.startswith("#")} <= set(pins)
    assert Blueprint(interpreter=fixed_interpreter()).torch_pin() == "torch==2.13.0+cpu"


def test_cache_folder_prefers_our_variable_then_xdg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert engines_folder() == tmp_path / "cache" / "engines"
    monkeypatch.delenv("PDCTL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert engines_folder() == tmp_path / "xdg" / "pdctl" / "engines"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert engines_folder() == tmp_path / "home" / ".cache" / "pdctl" / "engines"


def test_interpreter_is_the_base_of_ours_or_the_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert base_interpreter().version == version
    assert base_interpreter().path.is_file()
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    assert base_interpreter() == Interpreter(Path(sys.executable), version)
    monkeypatch.setenv(PYTHON_VARIABLE, "/nowhere/python3")
    with pytest.raises(EngineError, match="PDCTL_ENGINE_PYTHON names /nowhere/python3"):
        base_interpreter()
