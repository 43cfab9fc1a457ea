"""Signals that fired, and silences."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select, true, tuple_
from sqlmodel import col

from pdctl.adapters.store.codec import plain
from pdctl.adapters.store.database import Database, readable
from pdctl.adapters.store.tables import SignalRow, SilenceRow
from pdctl.domain.signals.book import Signal, State
from pdctl.domain.signals.silences import Silence

KEPT_SIGNALS = 5000
"""Newest signals that outlive a pruning."""


class SignalTables(Database):
    """`control.signals.memory.SignalStore` over SQL."""

    async def save_signals(self, signals: Sequence[Signal]) -> None:
        """Put each as it is now; a signal is named by its episode."""
        async with self._write() as db:
            for one in signals:
                row = {
                    "episode": plain(one.episode)[:700], "fired_at": one.fired_at or 0.0,
                    "firing": one.state is State.FIRING, "record": one,
                }  # fmt: skip
                put = self._dialect.insert(SignalRow).values(row)
                await db.execute(put.on_conflict_do_update(index_elements=["episode"], set_=row))

    async def firing_signals(self) -> list[Signal]:
        """Those that had not been resolved."""
        wanted = select(col(SignalRow.record)).where(col(SignalRow.firing) == true())
        async with self._read() as db:
            return list(readable(Signal, await db.scalars(wanted)))

    async def signal_history(self, *, before: str | None, limit: int) -> list[Signal]:
        """Newest first by when they fired; only those before the episode `before`."""
        fired, episode = col(SignalRow.fired_at), col(SignalRow.episode)
        wanted = select(col(SignalRow.record)).order_by(fired.desc(), episode.desc()).limit(limit)
        async with self._read() as db:
            if before is not None:
                at = await db.scalar(select(fired).where(episode == plain(before)[:700]))
                if at is None:
                    return []
                wanted = wanted.where(tuple_(fired, episode) < (at, plain(before)[:700]))
            return list(readable(Signal, await db.scalars(wanted)))

    async def put_silence(self, silence: Silence) -> None:
        """Keep it."""
        row = {"id": silence.id, "until": silence.until, "record": silence}
        async with self._write() as db:
            await db.execute(insert(SilenceRow).values(row))

    async def drop_silence(self, id_: str) -> None:
        """Forget it."""
        async with self._write() as db:
            await db.execute(delete(SilenceRow).where(col(SilenceRow.id) == id_))

    async def silences(self, *, after: float) -> list[Silence]:
        """Those that end after that wall time; others are forgotten."""
        async with self._write() as db:
            await db.execute(delete(SilenceRow).where(col(SilenceRow.until) <= after))
            found = await db.scalars(select(col(SilenceRow.record)))
            return list(readable(Silence, found))
