"""Who is let in: API keys from a file that is read again when it changes, and each one's limits.

Law: a key is neither kept, nor logged, nor forwarded; what is told of a client is the key's name.
While the file cannot be read, the keys read last count; without any nobody is let in.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pdctl.domain.keys import ApiKey, KeysError, digest, parse
from pdctl.domain.topology import RouterSpec

log = logging.getLogger(__name__)
LOOK_S = 1.0
"""How often the file is looked at, at most."""
MINUTE_S = 60.0
HEADERS = frozenset({"authorization", "x-api-key"})
"""Where a key may stand: neither reaches an engine."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is not let in."""

    status: int
    message: str
    retry_after_s: int | None = None
    client: str = ""
    """The key's name, where it is a known one."""


@dataclass(slots=True)
class _Use:
    """What one key has used up here."""

    open: int = 0
    begun: deque[float] = field(default_factory=deque)
    """Monotonic times of the requests of the last minute."""


class Keyring:
    """The keys of one front door, and what each has open."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._path = ""
        self._looked = -math.inf
        self._seen: tuple[int, ...] | None = None
        self._keys: dict[str, ApiKey] | None = None
        self._uses: dict[str, _Use] = {}

    def who(self, headers: Mapping[str, str], file: str) -> ApiKey | Denial:
        """Whose key it is. Does not count as a use."""
        self._look(file)
        if self._keys is None:
            return Denial(503, "The router cannot read its keys. Tell its operator.", 5)
        given = _given(headers)
        if not given:
            return Denial(401, "An API key is needed: send it as `Authorization: Bearer KEY`.")
        return self._keys.get(digest(given)) or Denial(401, "This API key is not known here.")

    def enter(self, key: ApiKey, limits: RouterSpec, model: str) -> Denial | None:
        """One more request of `key`, or why not; `leave` when it is over. Nothing is counted of a
        request that is denied."""
        if key.models and model not in key.models:
            return Denial(403, f"This API key may not use the model `{model}`.", client=key.name)
        use, now = self._uses.setdefault(key.name, _Use()), self._monotonic()
        if (most := _share(key.concurrent, limits)) and use.open >= most:
            words = f"{key.concurrent} requests open at a time{_divided(most, key.concurrent)}"
            return Denial(429, f"This API key may have {words}.", 1, key.name)
        if most := _share(key.requests_per_minute, limits):
            while use.begun and use.begun[0] <= now - MINUTE_S:
                use.begun.popleft()
            if len(use.begun) >= most:
                per = key.requests_per_minute
                words = f"{per} requests in a minute{_divided(most, per)}"
                wait = math.ceil(use.begun[0] + MINUTE_S - now)
                return Denial(429, f"This API key may send {words}.", max(1, wait), key.name)
            use.begun.append(now)
        use.open += 1
        return None

    def leave(self, key: ApiKey) -> None:
        """One of its requests is over."""
        self._uses[key.name].open -= 1

    def open(self) -> int:
        """Requests under way with any key."""
        return sum(use.open for use in self._uses.values())

    def _look(self, file: str) -> None:
        now = self._monotonic()
        if file == self._path and now - self._looked < LOOK_S:
            return
        if file != self._path:
            self._keys = self._seen = None
        self._path, self._looked = file, now
        try:
            status = Path(file).stat()
            seen: tuple[int, ...] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            seen = ()
        if seen != self._seen:
            self._seen = seen
            self._read(file)

    def _read(self, file: str) -> None:
        try:
            self._keys = parse(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, KeysError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            still = "nobody is let in" if self._keys is None else "the keys read last count"
            log.error("the keys file %s cannot be used: %s; %s", file, why, still)
            return
        names = {one.name for one in self._keys.values()}
        self._uses = {name: use for name, use in self._uses.items() if use.open or name in names}


def _given(headers: Mapping[str, str]) -> str:
    scheme, _, rest = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        return rest.strip()
    return headers.get("X-Api-Key", "").strip()


def _share(limit: int | None, limits: RouterSpec) -> int | None:
    """This process's part of a limit: connections fall to any of the router workers."""
    return None if limit is None else -(-limit // max(1, limits.workers))


def _divided(share: int, whole: int | None) -> str:
    return "" if share == whole else f" ({share} at each router worker)"
