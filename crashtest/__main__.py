"""`python -m crashtest`: rounds on simulated engines, or with --real on vLLM; 1 when one failed."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from crashtest import fleets, report
from crashtest.course import Course, run
from crashtest.fleets import Ports, Shape
from crashtest.rounds import Round
from crashtest.world import free_ports
from pdctl.engine_env import find_engine


def parser() -> argparse.ArgumentParser:
    """The command line."""
    asked = argparse.ArgumentParser(prog="python -m crashtest", description=__doc__)
    asked.add_argument("--rounds", type=int, default=200, help="on simulated engines (200)")
    asked.add_argument(
        "--real", type=int, metavar="N", help="N rounds on vLLM instead, 1p1d that may grow by one"
    )
    asked.add_argument("--seed", type=int, help="repeats the choices of an earlier run")
    asked.add_argument("--shape", type=Shape.parse, default=Shape(), help="of the fleet (2p2d)")
    asked.add_argument("--workers", type=int, default=2, help="router workers (2)")
    asked.add_argument("--clients", type=int, default=4, help="streams that are always open (4)")
    asked.add_argument("--ports", type=int, help="first of 100 ports (a free range)")
    asked.add_argument("--dir", type=Path, help="state, logs and evidence (a temporary folder)")
    asked.add_argument("--keep-state", action="store_true", help="keep them when all went well")
    asked.add_argument("--json", action="store_true", help="the summary as JSON")
    return asked


def course_of(given: argparse.Namespace, folder: Path) -> Course:
    """What was asked for; OSError or LookupError when this machine does not have it."""
    ports = Ports(given.ports) if given.ports else free_ports()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    if given.real is None:
        text = fleets.simulated(given.shape, ports, given.workers)
        return Course(
            folder, text, ports, given.shape, given.workers, given.clients, seed, given.rounds
        )
    engine = find_engine()
    if engine is None:
        raise LookupError("the engine environment is not built; run `make engine`")
    text = fleets.real(engine, ports, given.workers)
    return Course(
        folder, text, ports, fleets.REAL, given.workers, given.clients, seed, given.real,
        engines="real",
    )  # fmt: skip


def main(argv: Sequence[str] | None = None, tell: Callable[[str], None] | None = None) -> int:
    """0 when everything held."""
    given = parser().parse_args(argv)
    tell = tell or _to_stderr
    folder = given.dir or Path(tempfile.mkdtemp(prefix="pdctl-crashtest-"))
    try:
        course = course_of(given, folder)
    except (LookupError, OSError) as error:
        tell(f"crashtest: {error}")
        return 2
    tell(f"seed {course.seed}; logs and evidence in {folder}")
    begun = time.monotonic()
    rounds: list[Round] = []
    cut = False
    try:
        asyncio.run(_interruptible(course, tell, rounds))
    except (asyncio.CancelledError, KeyboardInterrupt):
        tell("interrupted; everything was ended")
        cut = True
    told = report.summary(
        rounds, seed=course.seed, seconds=time.monotonic() - begun, engines=course.engines
    )
    sys.stdout.write(f"{json.dumps(told, indent=1) if given.json else report.table(told)}\n")
    failed = bool(told["violations"]) or len(rounds) < course.rounds
    if not failed and not given.keep_state and given.dir is None:
        shutil.rmtree(folder)
    return 130 if cut else int(failed)


async def _interruptible(course: Course, tell: Callable[[str], None], rounds: list[Round]) -> None:
    """SIGTERM and Ctrl-C end the fleet too, even where a shell has us ignore the latter."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - we are one
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await run(course, random.Random(course.seed), tell, rounds)  # noqa: S311 - repeatable


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
