"""Tells the webhook of signals: in order, at least once, and without ever holding anybody up.

What cannot be delivered waits, up to `KEPT` notes; then the oldest go. An answer that says that the
note itself is wrong (4xx) is not repeated. The body is Alertmanager's, version 4.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any

from pdctl.domain.signals.book import Signal, State
from pdctl.domain.signals.rules import RULES, Rule
from pdctl.domain.topology import WebhookSpec
from pdctl.ports import Clock

log = logging.getLogger(__name__)
KEPT, BATCH = 1000, 50
LONGEST_PAUSE_S = 60.0
Note = tuple[str, State]
"""(episode, the state that it tells of)"""
Post = Callable[[str, dict[str, Any], float], Awaitable[int]]
"""(address or a reference to it, body, timeout in seconds) -> status; PostError when none came."""


class PostError(Exception):
    """No answer came; the text says why and never names the address."""


class Courier:
    """One sender; run it as a task."""

    def __init__(
        self,
        post: Post,
        clock: Clock,
        *,
        spec: Callable[[], WebhookSpec],
        delivered: Callable[[Sequence[Signal]], None],
        fleet: str,
        rng: Random,
    ) -> None:
        self._post, self._clock, self._spec = post, clock, spec
        self._delivered, self._fleet, self._rng = delivered, fleet, rng
        self._waiting: dict[Note, Signal] = {}
        self._more = asyncio.Event()
        self._failures, self._error = 0, ""

    @property
    def failures(self) -> int | None:
        """Attempts in a row that failed; None where there is no webhook."""
        return self._failures if self._spec().url_secret else None

    @property
    def error(self) -> str:
        """What was wrong with the last attempt."""
        waiting = f"; {len(self._waiting)} notes wait" if self._waiting else ""
        return f"{self._error}{waiting}" if self._error else ""

    def awaits(self, signal: Signal) -> bool:
        """Whether the note that `signal` is in its state has not been delivered yet."""
        return (signal.episode, signal.state) in self._waiting

    def tell(self, signal: Signal) -> None:
        """Deliver it as soon as can be; never waits."""
        if self._spec().url_secret and not self.awaits(signal):
            self._waiting[signal.episode, signal.state] = signal
            if len(self._waiting) > KEPT:
                del self._waiting[next(iter(self._waiting))]
            self._more.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            await self._more.wait()
            pause = await self._try()
            if not self._waiting:
                self._more.clear()
            if pause:
                await self._clock.sleep(pause)

    async def _try(self) -> float:
        """One attempt; how long to wait before the next."""
        spec = self._spec()
        if not spec.url_secret:
            self._waiting.clear()
            self._failures, self._error = 0, ""
        batch = [*islice(self._waiting.values(), BATCH)]
        if not batch:
            return 0.0
        try:
            status = await self._post(spec.url_secret, body(batch, self._fleet), spec.timeout_s)
        except PostError as error:
            return self._failed(str(error))
        except Exception as error:
            log.exception("signals could not be sent")
            return self._failed(type(error).__name__)
        if 200 <= status < 300:
            self._failures, self._error = 0, ""
            self._settle(batch)
            return 0.0
        if 400 <= status < 500 and status not in (408, 429):
            self._settle(batch)  # the same note again would be refused again
        return self._failed(f"it answered {status}")

    def _settle(self, batch: Sequence[Signal]) -> None:
        for one in batch:
            self._waiting.pop((one.episode, one.state), None)
        self._delivered(batch)

    def _failed(self, why: str) -> float:
        self._failures, self._error = self._failures + 1, why
        longest = min(LONGEST_PAUSE_S, 2.0 ** min(self._failures - 1, 6))
        return longest * self._rng.uniform(0.5, 1.0)


def body(signals: Sequence[Signal], fleet: str) -> dict[str, Any]:
    """What is posted: one alert for each signal."""
    firing = any(one.state is State.FIRING for one in signals)
    return {
        "version": "4",
        "status": "firing" if firing else "resolved",
        "receiver": "pdctl",
        "groupKey": f"pdctl/{fleet}",
        "groupLabels": {"fleet": fleet},
        "commonLabels": {"fleet": fleet},
        "commonAnnotations": {},
        "externalURL": "",
        "truncatedAlerts": 0,
        "alerts": [_alert(one, fleet) for one in signals],
    }


def _alert(signal: Signal, fleet: str) -> dict[str, Any]:
    rule = RULES.get(signal.rule) or replace(RULES["pool_short"], name=signal.rule)
    return {
        "status": signal.state.value,
        "labels": {
            "alertname": signal.rule, "severity": signal.severity.value, "fleet": fleet,
            "subject": signal.subject,
        },
        "annotations": _annotations(signal, rule),
        "startsAt": _moment(signal.fired_at),
        "endsAt": _moment(signal.resolved_at),
        "generatorURL": "",
        "fingerprint": signal.episode,
    }  # fmt: skip


def _annotations(signal: Signal, rule: Rule) -> dict[str, str]:
    said = {
        "summary": rule.title, "detail": signal.detail, "means": rule.means,
        "matters": rule.matters, "knob": rule.turn(signal.subject), "value": f"{signal.value:g}",
    }  # fmt: skip
    return said if signal.state is State.FIRING else {**said, "ending": signal.ending}


def _moment(seconds: float | None) -> str:
    """RFC 3339; year 1 is Alertmanager's way to say "not yet"."""
    if seconds is None:
        return "0001-01-01T00:00:00Z"
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
