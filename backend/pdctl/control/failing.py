"""What a failure does to an instance: the streak grows, the first one is pinned, a pause begins.

Law: a lost port race is nobody's failure and is retried at once on another port, a few times over.
"""

from __future__ import annotations

from typing import Any

from pdctl.control.observed import Observed
from pdctl.domain.instance import ExitInfo, Instance, Vitals
from pdctl.domain.lifecycle import Reason, Trigger
from pdctl.domain.retry import MAX_RACES, backoff_s
from pdctl.domain.verdict import Verdict
from pdctl.ports import Clock


def crashed(
    observed: Observed,
    clock: Clock,
    one: Instance,
    why: Verdict,
    exit_: ExitInfo | None = None,
    **changes: Any,
) -> None:
    """Move `one` to BACKOFF because of `why`; `exit_` is how its process ended, if it had one."""
    races = one.vitals.races + 1 if why.reason is Reason.PORT_RACE else 0
    free = 0 < races <= MAX_RACES
    failures = one.failures if free else one.failures + 1
    pause = 0.0 if free else backoff_s(failures, one.id)
    observed.move(
        one,
        Trigger.CRASHED,
        reason=why.reason,
        message=why.message,
        failures=failures,
        exit=exit_ or one.exit,
        first_failure=one.first_failure if free else one.first_failure or exit_,
        retry_at=clock.monotonic() + pause,
        vitals=Vitals(races=races),
        **changes,
    )
