"""Warm-ups and probe handoffs: what proves that an instance, and a pair, can be given work.

Law: a result that comes back for a process which is not in charge any more is dropped. A probe
that fails condemns its pair, not its ends.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pdctl.control.deadline import within
from pdctl.control.fleet_state import FleetState
from pdctl.control.jobs import Jobs
from pdctl.control.observed import Observed
from pdctl.domain import pairing
from pdctl.domain.actions import ProbePair, Warm
from pdctl.domain.ids import InstanceId
from pdctl.domain.instance import Instance, Pair
from pdctl.domain.lifecycle import Phase, Trigger
from pdctl.domain.retry import backoff_s
from pdctl.ports import Clock, Health, Probe, ProbeResult

WARM_DEADLINE_S = 120.0
"""The first request may compile kernels."""
WARM_RETRY_S = 2.0
PROBE_SLACK_S = 60.0
"""Added to two leases: a first pull may stall until the lease ends, and is right after that."""
PROBE_RETRY_S = 5.0
"""First pause after a probe that failed; doubles."""


class Probing:
    """Carries out `Warm` and `ProbePair`."""

    def __init__(
        self, state: FleetState, observed: Observed, probe: Probe, clock: Clock, jobs: Jobs
    ) -> None:
        self._state, self._observed, self._probe = state, observed, probe
        self._clock, self._jobs = clock, jobs
        self._decode_of: dict[InstanceId, InstanceId] = {}

    def warm(self, action: Warm) -> None:
        """Send the first tiny request in the background."""
        if (one := self._observed.get(action.id)) is not None:
            self._jobs.start(f"warm:{one.id}", partial(self._warm, one))

    async def _warm(self, one: Instance) -> None:
        model = self._state.fleet.desired.served_name
        work = self._probe.warm(one.endpoint, model)
        try:
            health = await within(self._clock, WARM_DEADLINE_S, work, name=f"warm {one.id}")
        except TimeoutError as error:
            health = Health(up=False, why=str(error))
        current = self._observed.same(one)
        if current is None or current.phase is not Phase.WARMING:
            return
        now = self._clock.monotonic()
        if health.up:
            vitals = replace(current.vitals, progress_at=now, misses=0)
            self._observed.move(
                current, Trigger.WARMED, message="warmed up", retry_at=None, vitals=vitals
            )
        else:
            self._observed.edit(
                current, message=f"the warm-up failed: {health.why}", retry_at=now + WARM_RETRY_S
            )

    def probe(self, action: ProbePair) -> None:
        """Try one handoff in the background; one at a time for each prefill."""
        pair = self._observed.pair(action.prefill, action.decode)
        key = f"probe:{action.prefill}"
        if pair is None or self._jobs.busy(key):
            return
        state = pair.state if pair.state in _SHOWN else pairing.PROBING
        self._observed.put_pair(replace(pair, state=state, retry_at=None))
        self._decode_of[pair.prefill] = pair.decode
        self._jobs.start(key, partial(self._probe_pair, pair))

    def abandon(self) -> None:
        """End probes of which an end is not there any more: they would only wait."""
        for prefill, decode in list(self._decode_of.items()):
            ends = (self._observed.get(prefill), self._observed.get(decode))
            if not all(end is not None and end.phase in _HERE for end in ends):
                self._jobs.cancel(f"probe:{prefill}")
                self._decode_of.pop(prefill)
                self._reopen(prefill, decode)

    async def _probe_pair(self, pair: Pair) -> None:
        try:
            result = await self._handoff(pair)
            current = self._observed.pair(pair.prefill, pair.decode)
            if current is not None and current.generations == pair.generations:
                self._observed.put_pair(self._judged(current, result))
        finally:
            self._decode_of.pop(pair.prefill, None)
            self._reopen(pair.prefill, pair.decode)

    async def _handoff(self, pair: Pair) -> ProbeResult:
        prefill, decode = self._observed.get(pair.prefill), self._observed.get(pair.decode)
        if prefill is None or decode is None:
            return ProbeResult(ok=False, message="an end is gone")
        desired = self._state.fleet.desired
        lease_s = float(desired.connector.lease_s)
        work = self._probe.handoff(
            prefill.endpoint, decode.endpoint, desired.served_name, lease_s=lease_s
        )
        name = f"probe {pair.prefill}>{pair.decode}"
        try:
            return await within(self._clock, 2 * lease_s + PROBE_SLACK_S, work, name=name)
        except TimeoutError as error:
            return ProbeResult(ok=False, message=str(error))

    def _reopen(self, prefill: InstanceId, decode: InstanceId) -> None:
        """However the probe ended, the pair is not being probed any more."""
        current = self._observed.pair(prefill, decode)
        if current is None:
            return
        if current.state == pairing.PROBING:
            self._observed.put_pair(replace(current, state=pairing.UNTRIED))
        elif current.state == pairing.QUARANTINED and current.retry_at is None:
            self._observed.put_pair(replace(current, retry_at=self._clock.monotonic()))

    def _judged(self, pair: Pair, result: ProbeResult) -> Pair:
        if result.ok:
            return replace(
                pair, state=pairing.OK, message=result.message, last_ok=self._clock.now(),
                handoff_ms=result.handoff_ms, failures=0, retry_at=None, strikes=0,
            )  # fmt: skip
        failures = pair.failures + 1
        pause = backoff_s(failures, f"{pair.prefill}>{pair.decode}", base_s=PROBE_RETRY_S)
        return replace(
            pair, state=pairing.FAILING, message=result.message, failures=failures,
            handoff_ms=result.handoff_ms, retry_at=self._clock.monotonic() + pause,
        )  # fmt: skip


_HERE = pairing.PROBEABLE | {Phase.DRAINING}
_SHOWN = (pairing.OK, pairing.QUARANTINED)
"""States that tell an operator more than "probing" while a probe is under way."""
