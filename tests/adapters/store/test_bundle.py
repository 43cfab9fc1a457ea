"""A bundle: out of one database, into another, secrets left behind; and what is none is refused."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.records import record
from tests.fakes.world import spec

from pdctl import __version__
from pdctl.adapters.store.bundle import TIMED, WHOLE, bundled, manifest, unpack
from pdctl.adapters.store.repository import SqlStore
from pdctl.adapters.store.tables import METADATA
from pdctl.domain.bundle import Manifest
from pdctl.domain.errors import OperatorError
from pdctl.domain.events import Event, EventKind, EventQuery
from pdctl.domain.ids import Seq
from pdctl.domain.request_query import RequestQuery

NOW = 1_800_000_000.0
ABOUT = Manifest("tiny", True, NOW - 3600, NOW, "", __version__)
NOT_TAKEN = {"meta", "answers", "wishes", "leases", "owner"}
"""Nobody else's business: answers to writes, and who holds what of that machine."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    one = await SqlStore.open(f"sqlite+aiosqlite:///{tmp_path / 'one.db'}")
    rng = random.Random(3)
    fleet = spec()
    secret = replace(fleet.engine, python="/python")
    pools = tuple(replace(pool, env=(("HF_TOKEN", "very-secret"),)) for pool in fleet.pools)
    await one.save_revision(
        replace(fleet, engine=secret, pools=pools), actor="ada", reason="first", at=NOW - 9000
    )
    await one.add_requests([record(rng, n, NOW - 7200 + n * 36) for n in range(200)])
    await one.add_events(
        [
            Event(Seq(n + 1), NOW - 7200 + n * 36, EventKind.NOTICE, "fleet", {"message": "hello"})
            for n in range(199)
        ]
        + [
            Event(
                Seq(200), NOW, EventKind.OPERATION, "fleet",
                {"verb": "set_mode", "actor": "ada", "source": "web", "outcome": "done"},
            )
        ]
    )  # fmt: skip
    yield one
    await one.close()


async def taken(store: SqlStore, folder: Path) -> Path:
    async with bundled(store, ABOUT) as path:
        kept = Path(shutil.copy(path, folder / "taken.zip"))
    assert not path.exists()
    return kept


async def test_what_is_taken_away_is_found_again(store: SqlStore, tmp_path: Path) -> None:
    file = await taken(store, tmp_path)
    about = unpack(file, tmp_path / "two.db")
    assert (about.fleet, about.since, about.until) == ("tiny", NOW - 3600, NOW)
    other = await SqlStore.open(f"sqlite+aiosqlite:///{tmp_path / 'two.db'}")
    try:
        inside = [
            one for one in await store.requests(RequestQuery(limit=500))
            if one.received_at >= about.since
        ]  # fmt: skip
        assert 50 < len(inside) < 150
        assert await other.requests(RequestQuery(limit=500)) == inside
        facts = await store.events(EventQuery(limit=500))
        assert await other.events(EventQuery(limit=500)) == [
            one for one in facts if one.at >= about.since
        ]
        fleet = await other.latest_revision()
        assert fleet is not None
        assert fleet.pools[0].env == (("HF_TOKEN", "***"),)
        assert await other.last_seq() == 200
    finally:
        await other.close()


async def test_no_secret_is_in_it(store: SqlStore, tmp_path: Path) -> None:
    with zipfile.ZipFile(await taken(store, tmp_path)) as archive:
        everything = b"".join(archive.read(name) for name in archive.namelist())
    assert b"very-secret" not in everything
    assert b"HF_TOKEN" in everything


def test_every_table_is_either_taken_or_left_on_purpose() -> None:
    assert {*TIMED, *WHOLE} | NOT_TAKEN == set(METADATA.tables)


@pytest.mark.parametrize("cut", [0, 1, 50, 0.5, 0.99])
async def test_half_a_bundle_is_refused(store: SqlStore, tmp_path: Path, cut: float) -> None:
    file = await taken(store, tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(cut * len(whole)) if cut < 1 else int(cut)])
    with pytest.raises(OperatorError, match="no bundle of pdctl"):
        unpack(file, tmp_path / "two.db")


def spoilt(file: Path, **parts: str | None) -> None:
    """The bundle with parts replaced, added, or (None) taken out."""
    with zipfile.ZipFile(file) as archive:
        found: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    for name, text in parts.items():
        key = name.replace("__", ".").replace("_up_", "../")
        if text is None:
            del found[key]
        else:
            found[key] = text
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in found.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"manifest__json": None}, "no bundle"),
        ({"manifest__json": "[]"}, "no bundle"),
        ({"manifest__json": '{"fleet": "x"}'}, "no bundle"),
        ({"owner__jsonl": "{}"}, "no bundle"),
        ({"_up_evil__jsonl": "{}"}, "no bundle"),
        ({"events__jsonl": "not json\n"}, "cannot be understood"),
        ({"events__jsonl": "[]\n"}, "cannot be understood"),
        ({"events__jsonl": '{"seq": 1}\n'}, "cannot be understood"),
        ({"latency_minutes__jsonl": '{"counts": "?"}\n'}, "cannot be understood"),
    ],
)
async def test_a_spoilt_bundle_is_refused_in_a_sentence(
    store: SqlStore, tmp_path: Path, parts: dict[str, str | None], said: str
) -> None:
    file = await taken(store, tmp_path)
    spoilt(file, **parts)
    with pytest.raises(OperatorError, match=said):
        unpack(file, tmp_path / "two.db")


async def test_a_newer_one_names_its_pdctl(store: SqlStore, tmp_path: Path) -> None:
    file = await taken(store, tmp_path)
    about = json.loads(zipfile.ZipFile(file).read("manifest.json"))
    spoilt(file, manifest__json=json.dumps({**about, "format": 99, "version": "9.1"}))
    with pytest.raises(OperatorError, match=r"made by pdctl 9\.1, which is newer"):
        manifest(file)
    spoilt(file, manifest__json=json.dumps({**about, "schema": "9999"}))
    with pytest.raises(OperatorError, match="cannot be understood"):
        unpack(file, tmp_path / "two.db")
    with pytest.raises(OperatorError, match="cannot be read: No such file"):
        manifest(tmp_path / "nothing.zip")
