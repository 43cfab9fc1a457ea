"""Walls are tested twice: by contract (static) and by looking at what a process really loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER_SIDE = {"fastapi", "starlette", "sqlmodel", "sqlalchemy", "uvicorn", "alembic", "aiohttp"}


def loaded_by(module: str) -> set[str]:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.partition(".")[0] for name in json.loads(out.stdout.splitlines()[-1])}


def third_party(names: set[str]) -> set[str]:
    known = set(packages_distributions())
    return {name for name in names & known if name not in {"pdctl", "_distutils_hack"}}


def test_contracts_hold() -> None:
    out = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert out.returncode == 0, out.stdout[-4000:] + out.stderr[-1000:]


@pytest.mark.parametrize(
    "module",
    [
        "pdctl.domain.plan",
        "pdctl.domain.histogram",
        "pdctl.routing.machine",
        "pdctl.connectors.nixl",
    ],
)
def test_the_core_loads_nothing_but_the_standard_library(module: str) -> None:
    assert third_party(loaded_by(module)) == set()


@pytest.mark.parametrize("module", ["pdctl_console.app", "pdctl.client.admin"])
def test_a_face_loads_no_server(module: str) -> None:
    assert loaded_by(module) & SERVER_SIDE == set()


def test_the_plug_in_loader_imports_no_plug_in() -> None:
    assert loaded_by("pdctl.plugins") & {"ray", "kubernetes", "aiohttp", "fastapi"} == set()
