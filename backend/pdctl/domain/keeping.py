"""Which finished requests are kept in the store, and for how long: pure.

Law: what went wrong is kept whatever the share. Whether a request is kept follows from its record
alone, so that whoever has the record knows whether the store has it too.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from pdctl.domain.handoff import Outcome, RequestRecord

DAY_S = 86_400.0
MIB = 2**20
_WELL = frozenset({Outcome.OK, Outcome.CLIENT_GONE})


@dataclass(frozen=True, slots=True)
class Keeping:
    """How much of the requests is kept."""

    sample: float = 1.0
    """Share (0..1) kept of those that went well."""
    slow_ms: float = 10_000.0
    """A request that took as long, or longer, is kept in any case."""
    rows: int = 1_000_000
    """At most so many, the newest."""
    size: int = 2048 * MIB
    """At most so many bytes of the database."""
    age_s: float = 7 * DAY_S
    """None that was received longer ago."""

    def wanted(self, record: RequestRecord) -> bool:
        """Whether the store shall have it: failed, retried, slow, an objective missed; or drawn."""
        if record.outcome not in _WELL or record.retries or record.slo_missed:
            return True
        if record.e2e_ms is not None and record.e2e_ms >= self.slow_ms:
            return True
        drawn = zlib.crc32(f"{record.id}|{record.received_at}".encode("utf-8", "replace"))
        return drawn < self.sample * 2**32
