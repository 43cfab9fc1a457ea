# ruff: noqa: INP001 - a script of the engine environment, not a part of this package
"""Checks a fresh engine environment from inside it, and says what it holds as one JSON line.

Imports what an engine imports (a broken torch, a missing NIXL library or a stray torchvision shows
here and not in the first launch), and compares every distribution with the lock.
"""

import argparse
import importlib
import json
import re
import sys
from importlib import metadata
from pathlib import Path

PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)\s*(?:;|$)")


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Prints one line per fault on stderr and returns 1, or the versions as JSON and returns 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--import", dest="imports", action="append", default=[])
    parser.add_argument("--absent", action="append", default=[])
    parser.add_argument("--report", action="append", default=[])
    given = parser.parse_args()
    installed = {canonical(found.name): found.version for found in metadata.distributions()}
    faults = [f"{name} is installed, and must not be" for name in given.absent if name in installed]
    for line in given.lock.read_text(encoding="utf-8").splitlines():
        pin = PIN.match(line)
        has = installed.get(canonical(pin["name"])) if pin else None
        if pin and has != pin["version"] and not (has is None and ";" in line):
            faults.append(f"{pin['name']} is {has or 'missing'}, the lock says {pin['version']}")
    for name in given.imports:
        try:
            importlib.import_module(name)
        except Exception as error:  # any failure to import makes the environment useless
            faults.append(f"import {name}: {type(error).__name__}: {error}")
    for fault in faults:
        sys.stderr.write(fault + "\n")
    sys.stdout.write(json.dumps({name: installed.get(name) for name in given.report}) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
