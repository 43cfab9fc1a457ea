"""Frames over a local stream: four bytes of length (big endian), then one JSON object.

Control to worker: table, listen, drain, ack. Worker to control: hello, state, load, record,
suspect, beat. Every frame names itself in `t`; what is not known is skipped, so that versions can
meet.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from pdctl.domain.handoff import Circuit, Load, RequestRecord, Suspect
from pdctl.domain.kv_events import KvFollowed

HELLO, STATE, LOAD, RECORD, SUSPECT, BEAT = (
    "hello", "state", "load", "record", "suspect", "beat",
)  # fmt: skip
TABLE, LISTEN, DRAIN, ACK = "table", "listen", "drain", "ack"
WAITING, LISTENING, REPLACE, DRAINING, DONE = (
    "waiting", "listening", "replace", "draining", "done",
)  # fmt: skip
"""States of a worker: not yet listening; serving; serving, and asking for a successor; serving
what it has to its end; ended but for what it still has to tell."""
BEAT_S = 1.0
"""A worker that has nothing to say says so this often."""
LONGEST = 64 * 1024 * 1024
"""Bytes of one frame: the table of a thousand instances takes some ten of them."""
_SIZE = 4


def pack(name: str, **data: Any) -> bytes:
    """One frame."""
    body = orjson.dumps({"t": name, **data}, option=orjson.OPT_NON_STR_KEYS)
    return len(body).to_bytes(_SIZE, "big") + body


async def read(stream: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame, or None at the end of the stream (which may come in mid-frame)."""
    try:
        size = int.from_bytes(await stream.readexactly(_SIZE), "big")
        if size > LONGEST:
            return None
        data: dict[str, Any] = orjson.loads(await stream.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return None
    return data


def pack_fact(seq: int, fact: RequestRecord | Suspect, *, again: bool) -> bytes:
    """A numbered fact; `again` when it may have been told before."""
    name = RECORD if isinstance(fact, RequestRecord) else SUSPECT
    return pack(name, seq=seq, again=again, data=fact)


def load_of(data: dict[str, Any]) -> Load:
    """The load that a frame carries."""
    return Load(
        int(data["table_seq"]),
        {str(id_): int(count) for id_, count in data["inflight"].items()},
        int(data["queued"]),
        {str(path): int(count) for path, count in data["paths"].items()},
        {
            str(id_): Circuit(str(one["state"]), str(one["why"]))
            for id_, one in data.get("circuits", {}).items()
        },
        {
            str(id_): (int(count), float(since))
            for id_, (count, since) in data.get("held", {}).items()
        },
        {str(id_): _followed(one) for id_, one in data.get("kv_events", {}).items()},
    )


def _followed(one: dict[str, Any]) -> KvFollowed:
    known = KvFollowed.__dataclass_fields__
    return KvFollowed(**{name: value for name, value in one.items() if name in known})


def suspect_of(data: dict[str, Any]) -> Suspect:
    """The suspicion that a frame carries."""
    return Suspect(str(data["instance"]), int(data["generation"]), str(data["why"]))
