"""A recipe of hand-made wheels: the real build steps run on it in seconds, without a network."""

import os
import zipfile
from pathlib import Path

import pytest

from pdctl.engine_env import Blueprint
from pdctl.engine_env.blueprint import RECIPE, Interpreter, base_interpreter

MAKE_MODEL = """
import sys, pathlib
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
(folder / "config.json").write_text("{}")
"""

BACKEND = """
import zipfile

INFO = "tiny_plugin-1.0.dist-info"
METADATA = "Metadata-Version: 2.1\\nName: tiny-plugin\\nVersion: 1.0\\n"
WHEEL = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"

def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "tiny_plugin-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("tiny_plugin.py", "")
        wheel.writestr(f"{INFO}/METADATA", METADATA)
        wheel.writestr(f"{INFO}/WHEEL", WHEEL)
        wheel.writestr(f"{INFO}/RECORD", "")
    return name
"""


def make_wheel(folder: Path, name: str, version: str, body: str = "") -> Path:
    """Writes a wheel with one module of its own name."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", body)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{info}/entry_points.txt", f"[console_scripts]\n{name}-tool = {name}:main\n"
        )
        # pip compiles scripts too, and leaves a folder of bytecode among them.
        wheel.writestr(f"{name}-{version}.data/scripts/{name}_script.py", "#!python\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def make_recipe(folder: Path) -> Blueprint:
    """A recipe with the real verification, a two-line model and two small distributions."""
    plugin = folder / "plugin"
    plugin.mkdir(parents=True)
    (folder / "lock.txt").write_text("torch==1.0+cpu\ntinyengine==2.0\n")
    (folder / "make_model.py").write_text(MAKE_MODEL)
    (folder / "verify.py").write_text((RECIPE / "verify.py").read_text())
    (plugin / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "tiny-plugin"\nversion = "1.0"\n'
    )
    (plugin / "backend.py").write_text(BACKEND)
    return Blueprint(
        recipe=folder,
        interpreter=base_interpreter(),
        imports=("torch", "tinyengine", "tiny_plugin"),
        needed_bytes=0,
    )


def offline_pip(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    """Makes pip look in one folder and nowhere else, whatever the machine's configuration says."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    wheels.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))


def fixed_interpreter() -> Interpreter:
    """An interpreter for tests that build nothing."""
    return Interpreter(Path("/nowhere/python"), "3.11")
