"""What the router has measured of one start of an instance: rates that forget.

A rate is a ratio of two sums in which older legs weigh less and less: short legs, whose times are
mostly noise, move it little. Nothing measured is None, never zero.
"""

from __future__ import annotations

KEPT = 0.95
"""Share of its weight that a leg has left after the next one: about 20 legs count."""


class Rate:
    """Amount per second."""

    __slots__ = ("_amount", "_seconds")

    def __init__(self) -> None:
        self._amount = self._seconds = 0.0

    def learn(self, amount: float, seconds: float) -> None:
        """So much was done in so long."""
        self._amount = KEPT * self._amount + amount
        self._seconds = KEPT * self._seconds + max(0.0, seconds)

    @property
    def value(self) -> float | None:
        """None until something took time."""
        return self._amount / self._seconds if self._amount > 0 and self._seconds > 0 else None


class Figures:
    """Times are monotonic seconds, tokens are estimated as requests' are."""

    __slots__ = ("_done", "prefill", "pull", "step")

    def __init__(self) -> None:
        self.prefill, self.pull, self.step = Rate(), Rate(), Rate()
        self._done = float("-inf")

    def prefilled(self, tokens: int, sent: float, done: float) -> None:
        """A prompt was computed. It had the engine to itself from the end of the one before."""
        self.prefill.learn(tokens, done - max(sent, self._done))
        self._done = max(done, self._done)

    @property
    def step_s(self) -> float | None:
        """Seconds between two tokens of one stream."""
        rate = self.step.value
        return None if rate is None else 1 / rate
