"""What an engine environment is made from, and the folder that follows from it.

Law: the folder's name is a hash of everything that shapes its content (recipe files, lock,
interpreter version, machine), so a changed recipe never meets an old environment.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

RECIPE = Path(__file__).parent / "recipe"
PYTHON_VARIABLE = "PDCTL_ENGINE_PYTHON"
TORCH_INDEX_VARIABLE = "PDCTL_TORCH_INDEX_URL"
CACHE_VARIABLE = "PDCTL_CACHE_DIR"
IMPORTS = ("torch", "transformers", "nixl._api", "vllm", "pdctl_cpu_engine")
ABSENT = ("torchvision", "torchaudio", "torchcodec")
NEEDED_BYTES = 5 * 1024**3


class EngineError(Exception):
    """The environment cannot be had; the message is a sentence for the operator."""


def engines_folder() -> Path:
    """`engines` in $PDCTL_CACHE_DIR, else in $XDG_CACHE_HOME/pdctl, else in ~/.cache/pdctl."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser().absolute() / "engines"
    shared = os.environ.get("XDG_CACHE_HOME")
    base = Path(shared) if shared and Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "pdctl" / "engines"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can make virtual environments, and its version as "3.11"."""

    path: Path
    version: str


def base_interpreter() -> Interpreter:
    """$PDCTL_ENGINE_PYTHON, else the interpreter that the console's environment was made from."""
    named = os.environ.get(PYTHON_VARIABLE)
    if not named:
        # Private, but the only name for "the interpreter that this virtual environment came from".
        own = Path(getattr(sys, "_base_executable", "") or sys.executable)
        return Interpreter(own, f"{sys.version_info.major}.{sys.version_info.minor}")
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [named, "-c", ask], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(
            f"{PYTHON_VARIABLE} names {named}, which does not run: {error}"
        ) from error
    return Interpreter(Path(named), answer.stdout.strip())


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One recipe for one interpreter; operators use the default, tests bring a small one."""

    recipe: Path = RECIPE
    interpreter: Interpreter = field(default_factory=base_interpreter)
    imports: tuple[str, ...] = IMPORTS
    absent: tuple[str, ...] = ABSENT
    needed_bytes: int = NEEDED_BYTES

    @property
    def lock(self) -> Path:
        """The file that names every distribution of the environment."""
        return self.recipe / "lock.txt"

    def torch_pin(self) -> str:
        """The lock's torch requirement, as in "torch==2.13.0+cpu"."""
        for line in self.lock.read_text(encoding="utf-8").splitlines():
            if line.startswith("torch=="):
                return line.split(";")[0].strip()
        raise EngineError(f"{self.lock} names no torch.")

    def key(self) -> str:
        """The name of the environment's folder: 16 hex digits over all that shapes it."""
        digest = hashlib.sha256()
        shape = [self.interpreter.version, platform.machine(), sys.platform]
        shape += [*self.imports, "absent", *self.absent]
        digest.update(json.dumps(shape).encode())
        for file in recipe_files(self.recipe):
            content = file.read_bytes()
            digest.update(f"\n{file.relative_to(self.recipe)} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:16]


def recipe_files(recipe: Path) -> list[Path]:
    """The recipe's own files in a fixed order, without what Python or an editor leaves there."""
    found = (file for file in recipe.rglob("*") if file.is_file())
    return sorted(
        file
        for file in found
        if "__pycache__" not in file.parts and file.suffix in {".txt", ".py", ".toml"}
    )
