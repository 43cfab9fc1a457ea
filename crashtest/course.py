"""A whole run: bring a fleet up, learn its texts, play the rounds, end it; nothing may be left."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crashtest import invariants, report, traffic
from crashtest.fleets import Ports, Shape
from crashtest.rounds import Round, Stage
from crashtest.traffic import Answer, Traffic
from crashtest.world import World, world
from pdctl.client.errors import ClientError
from pdctl.domain.topology import Mode

START_S = {"simulated": 90.0, "real": 600.0}
"""Until a fleet is whole, at the start and after every round."""
TELL_S = 10.0
PROMPTS = 8
_TOKENS = {"simulated": (15, 90), "real": (16, 96)}
_LENGTHS = {"simulated": (20, 900), "real": (20, 700)}


@dataclass(frozen=True, slots=True)
class Course:
    """What is to be run."""

    folder: Path
    fleet: str
    """Text of the fleet file."""
    ports: Ports
    shape: Shape
    workers: int
    clients: int
    seed: int
    rounds: int
    engines: str = "simulated"


async def run(
    course: Course, draw: random.Random, tell: Callable[[str], None], rounds: list[Round]
) -> None:
    """Play all rounds into `rounds`; the last one answers for the end of the fleet, too."""
    async with world(course.folder, course.fleet, course.ports) as here:
        await _whole(here, course, tell)
        bodies = traffic.bodies(
            PROMPTS, tokens=_TOKENS[course.engines], lengths=_LENGTHS[course.engines]
        )
        reference = await _texts(here, bodies)
        async with Traffic(here.router, bodies, course.clients) as asked:
            stage = Stage(
                here, asked, reference, course.shape, course.workers, draw,
                START_S[course.engines],
            )  # fmt: skip
            for number in range(1, course.rounds + 1):
                rounds.append(await stage.play(number))
                await _told(here, course, rounds[-1], tell)
                if rounds[-1].hopeless:
                    return
        rounds[-1].complain(*await _end(here))


async def _told(here: World, course: Course, one: Round, tell: Callable[[str], None]) -> None:
    tell(report.line(one))
    for said in one.complaints:
        tell(f"  VIOLATED: {said}")
    if one.complaints:
        tell(f"  evidence: {await report.keep_evidence(here, one, course.folder)}")


async def _whole(here: World, course: Course, tell: Callable[[str], None]) -> None:
    """Wait for the first time that everything is ready; TimeoutError with serve's last words."""
    said = ["pdctl serve does not answer"]
    begun = told = time.monotonic()
    while time.monotonic() < begun + START_S[course.engines] and here.ended() is None:
        try:
            fleet = await here.client.fleet()
            said = [] if fleet.instances else ["there are no instances yet"]
            said += invariants.unsettled(fleet, course.workers)
        except ClientError as error:
            said = [str(error)]
        if not said:
            return
        if time.monotonic() > told + TELL_S:
            told = time.monotonic()
            tell(f"starting, {told - begun:.0f} s: {said[0]}")
        await asyncio.sleep(0.2)
    raise TimeoutError(f"the fleet did not come up: {'; '.join(said)}; see {here.log}")


async def _texts(here: World, bodies: list[dict[str, Any]]) -> list[str]:
    """What an undisturbed fleet writes; the same in both modes, or there is nothing to compare."""
    written: dict[Mode, list[str]] = {}
    for mode in (Mode.CHUNKED, Mode.PD):
        await here.client.set_mode(mode)
        async with traffic.session() as http:
            answers = [Answer(f"reference-{mode}-{n}", n, 0.0) for n in range(len(bodies))]
            await asyncio.gather(
                *(traffic.ask(http, here.router, bodies[one.prompt], one) for one in answers)
            )
        if not all(one.whole and one.text for one in answers):
            raise ValueError(f"an undisturbed fleet did not answer: {answers}")
        written[mode] = [one.text for one in answers]
    if written[Mode.CHUNKED] != written[Mode.PD]:
        raise ValueError("PD and chunked write different texts, undisturbed")
    return written[Mode.PD]


async def _end(here: World) -> list[str]:
    """An orderly end, and what is left after it."""
    try:
        code = await here.stop()
    except TimeoutError:
        return ["pdctl serve did not end in time after SIGTERM"]
    said = [] if code == 0 else [f"pdctl serve ended with code {code} after SIGTERM"]
    return said + [f"left after the end: {one}" for one in await here.remains()]
