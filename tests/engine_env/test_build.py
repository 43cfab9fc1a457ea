"""The real build steps, run against a recipe of hand-made wheels."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine_env.small_recipe import make_recipe, make_wheel, offline_pip

from pdctl.engine_env import Blueprint, EngineError, ensure_engine, find_engine
from pdctl.engine_env.blueprint import TORCH_INDEX_VARIABLE, engines_folder


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where pip finds anything; the engine's wheel is there, torch is not."""
    folder = tmp_path / "wheels"
    offline_pip(monkeypatch, folder)
    make_wheel(folder, "tinyengine", "2.0", "def main():\n    print('from', __file__)\n")
    return folder


@pytest.fixture
def plan(tmp_path: Path) -> Blueprint:
    return make_recipe(tmp_path / "recipe")


def make_index(folder: Path) -> str:
    """A package index on disk with torch, as a URL."""
    make_wheel(folder / "torch", "torch", "1.0+cpu")
    (folder / "torch" / "index.html").write_text(
        '<a href="torch-1.0%2Bcpu-py3-none-any.whl">torch-1.0+cpu-py3-none-any.whl</a>'
    )
    return folder.as_uri()


def test_build_works_from_its_final_place_and_names_no_other(plan: Blueprint, wheels: Path) -> None:
    make_wheel(wheels, "torch", "1.0+cpu")
    engine = ensure_engine(blueprint=plan)
    assert engine.versions == {"torch": "1.0+cpu"}
    script = engine.python.parent / "tinyengine-tool"
    said = subprocess.run([script], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"from {engine.folder}")
    asked = "import sys, tinyengine; print(sys.prefix)"
    prefix = subprocess.run(
        [engine.python, "-c", asked], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(prefix) == engine.folder / "venv"
    found = [*engine.python.parent.rglob("*"), engine.folder / "venv" / "pyvenv.cfg"]
    texts = [file for file in found if file.is_file() and file.suffix != ".pyc"]
    assert engine.python.parent / "tinyengine_script.py" in texts
    assert not [file for file in texts if b".working-" in file.read_bytes()[:4096]]


def test_torch_that_is_nowhere_is_explained_with_the_variable(
    plan: Blueprint, wheels: Path
) -> None:
    with pytest.raises(EngineError) as raised:
        ensure_engine(blueprint=plan)
    sentence = str(raised.value)
    assert sentence.startswith("pip finds no torch==1.0+cpu for Python 3.")
    assert "set PDCTL_TORCH_INDEX_URL to the URL of PyTorch's own CPU wheel index" in sentence
    assert "http" not in sentence
    assert find_engine(plan) is None
    assert list(wheels.iterdir())


def test_torch_is_taken_from_the_index_that_the_variable_names(
    plan: Blueprint, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    monkeypatch.setenv(TORCH_INDEX_VARIABLE, make_index(tmp_path / "index"))
    assert ensure_engine(blueprint=plan).versions == {"torch": "1.0+cpu"}
    assert wheels.is_dir()


@pytest.mark.usefixtures("wheels")
def test_index_without_torch_is_named_as_the_wrong_kind(
    plan: Blueprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TORCH_INDEX_VARIABLE, (tmp_path / "empty").as_uri())
    with pytest.raises(EngineError, match="must be an index of PyTorch's CPU wheels"):
        ensure_engine(blueprint=plan)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"imports": ("nosuchmodule",)}, "import nosuchmodule: ModuleNotFoundError"),
        ({"absent": ("tinyengine",)}, "tinyengine is installed, and must not be"),
    ],
)
def test_environment_that_fails_its_verification_is_not_kept(
    plan: Blueprint, wheels: Path, change: dict[str, tuple[str, ...]], fault: str
) -> None:
    make_wheel(wheels, "torch", "1.0+cpu")
    strict = replace(plan, **change)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=fault):
        ensure_engine(blueprint=strict)
    assert find_engine(strict) is None
    assert (engines_folder() / f"{strict.key()}.log").read_text()
