"""The event feed as a client sees it: resumes by itself, and says when it could not.

`watch` never ends by itself: connection loss is a value (`Disconnected`), because a face must show
it. `Reset` means "you missed something: list again, then go on reading".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field

import httpx2

from pdctl.client.admin import AdminClient
from pdctl.client.errors import ClientError, Denied, NotFound, unreachable
from pdctl.contract.resources import EventView

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 15.0


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream is open (again)."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream broke; the next attempt follows in `retry_in_s` seconds."""

    error: ClientError
    retry_in_s: float


@dataclass(frozen=True, slots=True)
class Reset:
    """Events were missed (slow reader, old position, restarted server): list again."""

    seq: int


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event."""

    event: str
    data: str
    id: str


@dataclass(slots=True)
class SseParser:
    """Lines in, messages out (the WHATWG event stream grammar); does no I/O."""

    last_id: str = ""
    retry_ms: int | None = None
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, line: str) -> Message | None:
        """Take one line without its end; the message it completes, if it does."""
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isdecimal():
            self.retry_ms = int(value)
        return None

    def _dispatch(self) -> Message | None:
        event, data, self._event, self._data = self._event, self._data, "", []
        if not data:
            return None
        return Message(event or "message", "\n".join(data), self.last_id)


Seen = EventView | Reset | Connected | Disconnected


async def watch(
    client: AdminClient, after: int | str | None, topics: Sequence[str] = ()
) -> AsyncGenerator[Seen, None]:
    """Events after a position (`FleetView.position`), for ever; None: from now on.

    Raises Denied and NotFound (retrying would not help); everything else is retried with
    exponential backoff and jitter, and shown as `Disconnected`. Leave it by `contextlib.aclosing`.
    """
    position = None if after is None else str(after)
    delay = FIRST_RETRY_S
    while True:
        try:
            async with client.events(position, topics) as response:
                yield Connected()
                delay = FIRST_RETRY_S
                async for message in messages(response):
                    position = message.id or position
                    yield _decode(message)
            lost: ClientError = unreachable(client.base_url, httpx2.ReadError("it ended"))
        except (Denied, NotFound):
            raise
        except ClientError as error:
            lost = error
        except httpx2.TransportError as error:
            lost = unreachable(client.base_url, error)
        pause = delay * (0.5 + random.random() / 2)  # noqa: S311 - jitter, not a secret
        delay = min(delay * 2, LONGEST_RETRY_S)
        yield Disconnected(lost, pause)
        await asyncio.sleep(pause)


async def messages(response: httpx2.Response) -> AsyncIterator[Message]:
    """The events of an open SSE response, until it ends."""
    parser, rest = SseParser(), b""
    async for chunk in response.aiter_bytes():
        # Not aiter_lines(): it also splits at U+2028 and others, which JSON text may hold.
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if (message := parser.feed(line.removesuffix(b"\r").decode())) is not None:
                yield message


def _decode(message: Message) -> EventView | Reset:
    if message.event == "reset":
        return Reset(int(message.id.rpartition("-")[2] or 0))
    return EventView.model_validate_json(message.data)
