"""Clients that never stop asking, and what each of them was answered, byte for byte.

Every request has a connection of its own: what a killed process breaks is its own alone.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from pdctl.tasks import settle, spawn

HANG_S = 60.0
"""After so long without an end a request counts as hanging."""
CONNECT_S = 10.0
PAUSE_S = 0.1
"""After an answer that was not whole: refusals come fast, and nobody learns from a flood."""


@dataclass(slots=True)
class Answer:
    """What came of one request. Times are monotonic seconds."""

    id: str
    prompt: int
    began: float
    ended: float = 0.0
    status: int | None = None
    """None: no head of an answer came."""
    text: str = ""
    done: bool = False
    """[DONE] came."""
    error: str = ""
    """The body of a refusal, or the error event of a stream."""
    broken: str = ""
    """How the connection failed."""
    hung: bool = False

    @property
    def whole(self) -> bool:
        """Whether it ended as a good answer does; whether the text is right is another question."""
        return self.done and not self.error and not self.broken


@dataclass
class Traffic:
    """So many clients, taking the prompts in turn."""

    url: str
    bodies: list[dict[str, Any]]
    clients: int
    answers: list[Answer] = field(default_factory=list)
    """Ended ones; whoever judges them takes them away."""
    _open: set[asyncio.Task[None]] = field(default_factory=set)
    _count: Iterator[int] = field(default_factory=itertools.count)

    async def __aenter__(self) -> Traffic:
        self._session = session()
        self._clients = [
            spawn(self._client(number), name=f"client {number}") for number in range(self.clients)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        await settle(*self._clients)
        await self._session.close()

    def take(self) -> list[Answer]:
        """The answers since the last call."""
        taken, self.answers = self.answers, []
        return taken

    async def _client(self, number: int) -> None:
        for turn in itertools.count(number):
            which = turn % len(self.bodies)
            answer = Answer(f"crash-{next(self._count)}", which, time.monotonic())
            with timed(answer):
                await ask(self._session, self.url, self.bodies[which], answer)
            self.answers.append(answer)
            if not answer.whole:
                await asyncio.sleep(PAUSE_S)


def session() -> aiohttp.ClientSession:
    """Connections that are used once."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=0),
        timeout=aiohttp.ClientTimeout(total=HANG_S, sock_connect=CONNECT_S),
    )


@contextmanager
def timed(answer: Answer) -> Iterator[None]:
    """Note how a request failed, and when it ended."""
    try:
        yield
    except TimeoutError:
        answer.hung = True
    except (aiohttp.ClientError, OSError) as error:
        answer.broken = repr(error)
    finally:
        answer.ended = time.monotonic()


async def ask(http: aiohttp.ClientSession, url: str, body: dict[str, Any], answer: Answer) -> None:
    """One streamed completion, taken down in `answer` as it comes."""
    headers = {"X-Request-Id": answer.id}
    async with http.post(f"{url}/v1/completions", json=body, headers=headers) as reply:
        answer.status = reply.status
        if reply.status != 200:
            answer.error = await reply.text()
            return
        async for raw in reply.content:
            line = raw.decode().strip()
            if line == "data: [DONE]":
                answer.done = True
            elif line.startswith("data: "):
                _event(line.removeprefix("data: "), answer)


def _event(text: str, answer: Answer) -> None:
    data = json.loads(text)
    if "error" in data:
        answer.error = text
        return
    answer.text += "".join(choice["text"] for choice in data["choices"])


def bodies(
    count: int, *, tokens: tuple[int, int], lengths: tuple[int, int]
) -> list[dict[str, Any]]:
    """Requests over prompts of token ids that share no block; greedy, so that texts are known."""
    draw = random.Random("crashtest")  # noqa: S311 - prompts, no secrets
    found = []
    for number in range(count):
        length = draw.randint(*lengths)
        found.append(
            {
                "model": "tiny", "stream": True, "temperature": 0, "ignore_eos": True,
                "prompt": [draw.randrange(64, 464) for _ in range(length)],
                "max_tokens": tokens[0] + (tokens[1] - tokens[0]) * number // max(1, count - 1),
            }
        )  # fmt: skip
    return found
