"""A bundle, opened: the same faces over what was recorded, and nothing behind them.

Law: nothing here starts, stops or asks anything; time stands still at the moment of the bundle.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import uvloop

from pdctl.adapters.adminserver import AdminServer, listen
from pdctl.adapters.store.bundle import unpack
from pdctl.adapters.store.repository import SqlStore
from pdctl.api import create_api
from pdctl.app.life import Say
from pdctl.client.admin import AdminClient
from pdctl.control.feed import Feed
from pdctl.control.fleet_state import FleetState
from pdctl.control.latency import LatencyBook
from pdctl.control.minutes import Minutes
from pdctl.control.operations import Operations
from pdctl.control.plane import ControlPlane
from pdctl.control.request_log import RequestLog
from pdctl.domain.bundle import Manifest
from pdctl.domain.errors import OperatorError
from pdctl.domain.events import EventKind, EventQuery
from pdctl.domain.handoff import Load
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Pair
from pdctl.domain.request_query import RequestQuery
from pdctl.tasks import settle, spawn
from pdctl.web import create_web

HELD = 20_000
"""Newest requests that are looked at as if they had just been served; the store has the rest."""
PAIRS = 5000
"""Newest facts about pairs from which their states are read."""


class Stopped:
    """A clock that stands where it is put (ports.Clock). Nobody who waits by it goes on."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        """Wall time, UTC seconds."""
        return self.at

    def monotonic(self) -> float:
        """The same: there is only one time here."""
        return self.at

    async def sleep(self, seconds: float) -> None:
        """For ever."""
        del seconds
        await asyncio.Event().wait()


def show(file: Path, host: str, port: int, say: Say) -> None:
    """Show a bundle until interrupted. OperatorError for what is none, or a taken port."""
    uvloop.run(_show(file, host, port, say))


async def _show(file: Path, host: str, port: int, say: Say) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    with tempfile.TemporaryDirectory(prefix="pdctl-opened-") as folder:
        database = Path(folder) / "pdctl.db"
        about = await asyncio.to_thread(unpack, file, database)
        store = await SqlStore.open(f"sqlite+aiosqlite:///{database}")
        try:
            await _serve(await plane_of(store, about), about, (host, port), ended, say)
        finally:
            await store.close()


async def _serve(
    plane: ControlPlane, about: Manifest, address: tuple[str, int], ended: asyncio.Event, say: Say
) -> None:
    sock = listen(*address, what="The bundle", setting="--port")
    url = f"http://{address[0]}:{sock.getsockname()[1]}"
    api = create_api(plane, token=None, reading=True)
    inside = httpx2.ASGITransport(app=api)
    async with AdminClient(url, transport=inside, source="web") as client:
        api.mount("/", create_web(client))
        server = AdminServer(api, sock)
        running = spawn(server.run(), name="bundle")
        say(f"{about.fleet}, {_moment(about.since)} to {_moment(about.until)}: {url}")
        say(f"pdctl tui --url {url} shows it too. Ctrl-C closes it.")
        await ended.wait()
        api.state.streams.close()
        server.stop()
        await settle(running)


async def plane_of(store: SqlStore, about: Manifest) -> ControlPlane:
    """The control plane as it was when the bundle was made, as far as it was stored."""
    desired = await store.latest_revision()
    if desired is None:
        raise OperatorError("no_bundle", "There is no fleet in this bundle.", "")
    clock = Stopped(about.until)
    state, feed = FleetState(desired), Feed(clock, await store.last_seq())
    note = (
        f"This is a bundle of {_moment(about.until)}: nothing in it runs, nothing can be changed."
    )
    state.set_observed(await store.load_instances(), await _pairs(store), (note,), feed.seq)
    plane = ControlPlane(
        state=state, feed=feed, requests=RequestLog(HELD), latency=LatencyBook(clock), store=store,
        clock=clock, operations=Operations(state, feed, clock, store, lambda: None),
        data_plane_url="", command_view=lambda _: None, log_path=lambda _id, _previous: None,
        read_tail=lambda _path, _lines: [], follow=_nothing, load=lambda: Load(0),
        started_at=about.until,
    )  # fmt: skip
    plane.minutes = Minutes(plane.latency, store, clock)
    await _remember(plane, clock, about)
    return plane


async def _remember(plane: ControlPlane, clock: Stopped, about: Manifest) -> None:
    """Each request at its own time, so that windows are what they were."""
    for record in reversed(await plane.store.requests(RequestQuery(limit=HELD))):
        clock.at = record.received_at + (record.e2e_ms or 0.0) / 1000.0
        plane.requests.add(plane.goodput.judge(record))
        plane.latency.add(record)
        plane.truth.add(record)
    clock.at = about.until


async def _pairs(store: SqlStore) -> list[Pair]:
    query = EventQuery(limit=PAIRS, kinds=frozenset({EventKind.PAIR_CHANGED}))
    newest = {one.subject: one.data for one in await store.events(query)}
    found = []
    for subject, data in newest.items():
        prefill, _, decode = subject.partition(">")
        state, message = str(data.get("state")), str(data.get("message") or "")
        found.append(Pair(InstanceId(prefill), InstanceId(decode), state, message))
    return found


async def _nothing(path: Path, lines: int) -> AsyncIterator[str]:
    del path, lines
    return
    yield


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
