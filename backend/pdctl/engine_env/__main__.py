"""The command `python -m pdctl.engine_env`: builds the engine environment, or shows or removes it.

Exit status: 0 all well, 1 it cannot be had (a sentence on stderr says why), 2 wrong usage,
130 interrupted.
"""

import argparse
import json
import signal
import sys
from types import FrameType

from pdctl.engine_env import (
    EngineEnv,
    EngineError,
    StderrProgress,
    clean,
    ensure_engine,
    find_engine,
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pdctl.engine_env",
        description="Builds the environment that CPU engines run in: vLLM, NIXL and a tiny model.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--path", action="store_true", help="print its interpreter; build nothing")
    what.add_argument("--clean", action="store_true", help="remove every environment of this user")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    return parser.parse_args()


def _show(engine: EngineEnv, as_json: bool) -> None:
    fields = {
        "python": str(engine.python),
        "model": str(engine.model),
        "folder": str(engine.folder),
        "key": engine.key,
        "versions": engine.versions,
    }
    if as_json:
        sys.stdout.write(json.dumps(fields) + "\n")
    else:
        sys.stdout.write(f"python  {engine.python}\nmodel   {engine.model}\n")
        held = ", ".join(f"{name} {version}" for name, version in engine.versions.items())
        sys.stdout.write(f"holds   {held}\n")


def _answer(given: argparse.Namespace) -> None:
    if given.clean:
        removed = [str(folder) for folder in clean()]
        text = json.dumps({"removed": removed}) if given.json else "\n".join(removed)
        sys.stdout.write(text + "\n" if text else "")
        return
    if not given.path:
        _show(ensure_engine(StderrProgress()), given.json)
        return
    found = find_engine()
    if found is None:
        raise EngineError(
            "There is no engine environment yet: python -m pdctl.engine_env builds it."
        )
    if given.json:
        _show(found, as_json=True)
    else:
        sys.stdout.write(f"{found.python}\n")


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Runs the command line."""
    given = _arguments()
    # SIGTERM ends like Ctrl-C: the tool at work is stopped and the unfinished build removed.
    signal.signal(signal.SIGTERM, _stop)
    try:
        _answer(given)
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; the unfinished build was removed.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
