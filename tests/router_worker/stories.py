"""A record that says something in most of its fields."""

from __future__ import annotations

from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord

RECORD = RequestRecord(
    "req-1", 1_700_000_000.25, "/v1/completions", "tiny", True, "pd", Path.NONE, "no_instance",
    Outcome.NO_INSTANCE, 503, error="nobody", e2e_ms=1.5,
    legs=(Leg("prefill", "prefill-0", "least loaded", 0.5, engine=(("queue", 0.25),)),),
    itl=((3, 4), (5, 1)),
)  # fmt: skip
