"""Faults that an engine can be told to have, at start or while it runs.

Set them as attributes in process or by `POST /simulated/faults`; a change takes effect at once.
Faults that hit single requests hit every one, or the next `strikes` when that is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any


class UnknownFaultError(ValueError):
    """A fault that does not exist, or a value it cannot have."""


@dataclass(eq=False)
class Faults:
    """What is wrong with an engine; the defaults are a healthy one."""

    first_pull_stall: bool = False
    """The first pull from each prefill engine ends only a second after the lease ran out."""
    fail_prefill: int = 0
    """HTTP status that answers prefill legs."""
    fail_decode: int = 0
    """HTTP status that answers decode legs and plain requests."""
    hang: bool = False
    """Steps stop: requests are accepted and never answered, /health says 200."""
    refuse_connections: bool = False
    """Nothing listens on the HTTP port, and open connections are cut."""
    slow: float = 1.0
    """How many times longer every step takes."""
    die_after_tokens: int = 0
    """Connections are cut without an end once this many tokens of a request exist."""
    error_after_tokens: int = 0
    """Requests end in an internal error once this many tokens exist."""
    abort_finish: bool = False
    """Requests end at once with finish_reason "abort" and no tokens."""
    missing_params: bool = False
    """Prefill legs return no kv_transfer_params."""
    partial_params: bool = False
    """Prefill legs return kv_transfer_params without the remote engine's id."""
    drop_side_channel: bool = False
    """The side channel cuts every exchange: other engines cannot pull from here."""
    queue_full: bool = False
    """Every request is answered 503, as when the queue is full."""
    lose_kv_events: int = 0
    """So many messages of KV events, the next ones, do not arrive; they can be asked for again."""
    exit_code: int | None = None
    """The process exits with this code, as if it had crashed."""
    strikes: int | None = None
    """How many more requests the per-request faults hit; None is all of them."""

    def __post_init__(self) -> None:
        self.watchers: list[Callable[[], None]] = []

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        for watcher in self.__dict__.get("watchers", ()):
            watcher()

    def strike(self, active: object) -> bool:
        """Whether a per-request fault that is `active` hits this request; uses up a strike."""
        if not active or self.strikes == 0:
            return False
        if self.strikes is not None:
            self.strikes -= 1
        return True

    def update(self, changes: dict[str, Any]) -> None:
        """Set the named faults; refuses all of them when one is unknown or of the wrong type."""
        known = {one.name: getattr(Faults, one.name) for one in fields(self)}
        for name, value in changes.items():
            if name not in known:
                raise UnknownFaultError(f"no fault is called {name!r}; known: {', '.join(known)}")
            if not _fits(known[name], value):
                raise UnknownFaultError(f"{name} cannot be {value!r}")
        for name, value in changes.items():
            setattr(self, name, value)

    def clear(self) -> None:
        """Be healthy again."""
        self.update({one.name: one.default for one in fields(self)})

    def as_dict(self) -> dict[str, Any]:
        """The faults as they stand."""
        return asdict(self)


def _fits(default: object, value: object) -> bool:
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if isinstance(value, bool):
        return False
    return (isinstance(value, int) and value >= 0) or (value is None and default is None)
