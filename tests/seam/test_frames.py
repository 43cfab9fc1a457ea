"""Frames carry what crosses the seam, and never half of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.adapters.routers.test_merging import TABLE
from tests.router_worker.stories import RECORD

from pdctl.domain.handoff import Circuit, Load, RequestRecord, Suspect
from pdctl.domain.kv_events import KvFollowed
from pdctl.domain.table import RoutingTable
from pdctl.seam import frames


def stream(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def test_a_record_crosses_whole() -> None:
    frame = await frames.read(stream(frames.pack_fact(7, RECORD, again=True)))
    assert frame is not None
    assert (frame["t"], frame["seq"], frame["again"]) == (frames.RECORD, 7, True)
    assert RequestRecord.from_json(frame["data"]) == RECORD


async def test_load_and_suspicion_cross_whole() -> None:
    circuits = {"decode-0": Circuit("open", "refused")}
    kv = {"p": KvFollowed("stale", 5, 3, 2, 1, 9.5)}
    load = Load(3, {"decode-0": 2}, 1, {RECORD.path: 2}, circuits, {"p": (2, 8.5)}, kv)
    doubt = Suspect("decode-0", 4, "refused")
    reader = stream(frames.pack(frames.LOAD, load=load) + frames.pack_fact(1, doubt, again=False))
    first, second = await frames.read(reader), await frames.read(reader)
    assert first is not None
    assert second is not None
    assert frames.load_of(first["load"]) == replace(load, paths={"none": 2})
    assert frames.suspect_of(second["data"]) == doubt


async def test_the_end_in_a_frame_is_the_end() -> None:
    whole = frames.pack(frames.ACK, seqs=[1, 2, 3])
    reader = stream(whole + whole[:-1])
    assert await frames.read(reader) == {"t": frames.ACK, "seqs": [1, 2, 3]}
    assert await frames.read(reader) is None


async def test_what_is_no_frame_is_the_end() -> None:
    assert await frames.read(stream(b"\xff\xff\xff\xffnonsense")) is None
    assert await frames.read(stream(b"\0\0\0\3{]}")) is None


async def test_what_another_version_adds_is_ignored() -> None:
    table = TABLE.to_json() | {"mood": "new"}
    table["limits"] = table["limits"] | {"patience": 3}
    table["targets"] = [one | {"rack": "b"} for one in table["targets"]]
    record = RECORD.to_json() | {"colour": "red"}
    record["legs"] = [leg | {"hue": 1} for leg in record["legs"]]
    load = frames.load_of({
        "table_seq": 1, "inflight": {}, "queued": 0, "paths": {},
        "kv_events": {"p": {"blocks": 3, "warmth": 9}},
    })  # fmt: skip
    assert load.kv_events == {"p": KvFollowed(blocks=3)}
    sent = frames.pack(frames.TABLE, table=table, more=1) + frames.pack("song", verse=2)
    reader = stream(sent + frames.pack(frames.RECORD, seq=1, again=False, data=record))
    first, second, third = [await frames.read(reader) for _ in range(3)]
    assert first is not None
    assert third is not None
    assert RoutingTable.from_json(first["table"]) == TABLE
    assert second == {"t": "song", "verse": 2}
    assert RequestRecord.from_json(third["data"]) == RECORD
