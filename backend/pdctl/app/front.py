"""The router as the rest is given it: in this process, or in processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdctl import __version__
from pdctl.adapters.clock import SystemClock
from pdctl.adapters.kv_events import ZmqFeed
from pdctl.adapters.routers.processes import ProcessDataPlane, clear
from pdctl.adapters.store.repository import SqlStore
from pdctl.app.life import RouterPart
from pdctl.control.feed import Feed
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import RequestRecord
from pdctl.domain.topology import RouterSpec
from pdctl.gateway.plane import LocalDataPlane
from pdctl.ports import RouterWorker


@dataclass(frozen=True, slots=True)
class Front:
    """The front door, and what only its processes need or have."""

    router: RouterPart
    put_away: Callable[[Sequence[RequestRecord]], None] = lambda _: None
    """Told which records are stored."""
    workers: Callable[[], Sequence[RouterWorker]] = list
    log: Callable[[str], Path | None] = lambda _: None
    """The log of a worker by its name ("router-0"); None where there is no such worker."""


async def front_of(
    spec: RouterSpec, state_dir: Path, clock: SystemClock, *, store: SqlStore, feed: Feed
) -> Front:
    """What the fleet file says; workers that are not wanted stop listening now."""
    home = state_dir / "run" / "router"
    if not spec.workers:
        await clear(home)
        return Front(LocalDataPlane(spec.host, spec.port, clock=clock, feed=ZmqFeed()))

    async def known(record: RequestRecord) -> bool:
        stored = await store.request(record.id)
        return stored is not None and stored.received_at == record.received_at

    router = ProcessDataPlane(
        spec.host, spec.port, workers=spec.workers, home=home, version=__version__,
        tell=notices(feed), known=known,
    )  # fmt: skip
    return Front(router, router.stored, router.workers, router.log)


def notices(feed: Feed) -> Callable[[str, str], None]:
    """Says (level, sentence) to whoever looks at the fleet."""

    def tell(level: str, message: str) -> None:
        feed.publish(EventKind.NOTICE, "fleet", {"level": level, "message": message})

    return tell
