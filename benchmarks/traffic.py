"""Traffic for the bench of policies: who asks what, and when. All draws come from one seed.

Lengths are log-normal around published medians or means; nothing is replayed. Sources:

- chat: ShareGPT, means of 161 prompt and 338 answer tokens (Kwon et al., PagedAttention, SOSP'23)
- documents: Mooncake's conversation trace, mean 12 035 prompt tokens (Qin et al., FAST'25), answers
  as in Azure's conversation trace of 2023, median 129 (Patel et al., Splitwise, ISCA'24)
- agents: TraceLab, about 8 steps a request, medians of 870 appended and 200 answer tokens a step
  (Zhu et al., arXiv 2606.30560); the opening is shortened so that a simulated context fits
- bursts: Azure's traces of 2023, medians of 1020 prompt and 129 answer tokens (chat), 1500 and 13
  (code); gaps between arrivals are Gamma-distributed, as BurstGPT found (Wang et al., KDD'25)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

Tokens = list[int]


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation; its prompt is all that was said before, and `asks`."""

    asks: Tokens
    answer: Tokens
    pause_s: float = 0.0
    """After the answer before it."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: its turns come one after another."""

    at: float
    """Seconds after the start."""
    opening: Tokens
    turns: tuple[Turn, ...]
    session: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of traffic, and what its users call good."""

    name: str
    talks: tuple[Talk, ...]
    ttft_s: float
    tpot_s: float = 0.025

    @property
    def requests(self) -> int:
        """How many."""
        return sum(len(talk.turns) for talk in self.talks)


@dataclass(slots=True)
class Draw:
    """Lengths, gaps, and text that nobody else has."""

    rng: Random
    used: int = field(default=1)

    def length(self, median: float, sigma: float, most: int) -> int:
        """Log-normal, at least 1 and at most `most`."""
        return max(1, min(most, round(self.rng.lognormvariate(math.log(median), sigma))))

    def text(self, tokens: int) -> Tokens:
        """Text of its own."""
        self.used += tokens
        return list(range(self.used - tokens, self.used))

    def turn(self, asks: float, answer: float, *, most: int = 500) -> Turn:
        """A lonely request of about so many tokens."""
        prompt = self.text(self.length(asks, 0.8, most))
        return Turn(prompt, self.text(self.length(answer, 0.7, 500)))

    def arrivals(self, per_s: float, shape: float = 1.0) -> Iterator[float]:
        """Gamma gaps; a shape of 1 is a Poisson process, a smaller one comes in bursts."""
        now = 0.0
        while True:
            now += self.rng.gammavariate(shape, 1 / (shape * per_s))
            yield now


def chat(draw: Draw, size: int) -> Workload:
    """Conversations under one system prompt, with time to read and to write."""
    system, talks = draw.text(400), []
    for number, at in zip(range(size // 5), draw.arrivals(5.0), strict=False):
        turns = tuple(
            Turn(
                draw.text(draw.length(110, 0.9, 2000)),
                draw.text(draw.length(250, 0.8, 1000)),
                draw.rng.expovariate(1 / 6),
            )
            for _ in range(5)
        )
        talks.append(Talk(at, system, turns, f"chat-{number}"))
    return Workload("chat", tuple(talks), ttft_s=0.25)


def documents(draw: Draw, size: int) -> Workload:
    """Questions about a library of long documents, some of which everybody asks about."""
    library = [draw.text(draw.length(10_000, 0.6, 30_000)) for _ in range(60)]
    weights = [1 / (rank + 1) for rank in range(len(library))]
    talks = [
        Talk(
            at,
            draw.rng.choices(library, weights)[0],
            (draw.turn(40, 129),),
        )
        for _, at in zip(range(size), draw.arrivals(4.5), strict=False)
    ]
    return Workload("documents", tuple(talks), ttft_s=1.0)


def agents(draw: Draw, size: int) -> Workload:
    """Loops of model and tools: much context, little answer, short pauses; four kinds of agent."""
    kinds, talks = [draw.text(3000) for _ in range(4)], []
    for number, at in zip(range(size // 8), draw.arrivals(1.0), strict=False):
        turns = tuple(
            Turn(
                draw.text(draw.length(870, 0.9, 4000)),
                draw.text(draw.length(200, 0.8, 1000)),
                draw.rng.expovariate(1 / 2),
            )
            for _ in range(8)
        )
        talks.append(Talk(at, draw.rng.choice(kinds), turns, f"agent-{number}"))
    return Workload("agents", tuple(talks), ttft_s=0.5)


def bursts(draw: Draw, size: int, name: str = "bursts", per_s: float = 40.0) -> Workload:
    """Requests that have nothing in common and come in bursts."""
    talks = []
    for _, at in zip(range(size * 2), draw.arrivals(per_s, shape=0.25), strict=False):
        code = draw.rng.random() < 0.5
        talks.append(
            Talk(at, [], (draw.turn(1500 if code else 1020, 13 if code else 129, most=7000),))
        )
    return Workload(name, tuple(talks), ttft_s=0.5)


def flood(seed: int, size: int) -> Workload:
    """Bursts of more than the fleet of the bench can serve in time."""
    return bursts(Draw(Random(f"{seed} bursts")), size, "flood", 90.0)  # noqa: S311


KINDS = (chat, documents, agents, bursts)


def workloads(seed: int, size: int) -> list[Workload]:
    """One of each kind; the same for the same seed and size."""
    return [make(Draw(Random(f"{seed} {make.__name__}")), size) for make in KINDS]  # noqa: S311
