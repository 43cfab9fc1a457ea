"""What engines publish of their KV cache, and how well a router follows it (the seam, outward).

The events are those of vLLM 0.32 (`vllm/distributed/kv_events.py`), reduced to what tells which
beginnings of prompts an instance holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks in a row, each a continuation of the one before."""

    hashes: tuple[Hashable, ...]
    """The engine's own names of the blocks."""
    parent: Hashable | None
    """The block before the first; None at the beginning of a prompt."""
    tokens: tuple[int, ...]
    """Ids of all of them, `block_size` for each block."""
    block_size: int
    keys: tuple[str, ...] = ()
    """By block, what else it depends on (salt, LoRA, media); "" for nothing, () for nothing at all.
    A salt alone reads as `salted` writes it."""


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    """Blocks that it holds no more."""

    hashes: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class AllCleared:
    """It holds nothing any more."""


BlockEvent = BlocksStored | BlocksRemoved | AllCleared


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What one message says; `seq` counts messages from 0 without a gap."""

    seq: int
    at: float
    """Wall time of the engine, UTC seconds."""
    events: tuple[BlockEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class KvSource:
    """Where one engine publishes, as ZMQ addresses that can be connected to."""

    endpoint: str
    replay: str = ""
    """Where missed messages can be asked for; empty: nowhere."""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class KvFollowed:
    """How one router follows one instance."""

    why_not: str = ""
    """Why its events say nothing now, in words; empty while they do."""
    blocks: int = 0
    """Blocks that it is known to hold."""
    gaps: int = 0
    """Times that messages were missing."""
    replays: int = 0
    """Gaps that the engine filled when asked."""
    forgotten: int = 0
    """Gaps that it could not fill: what was known was forgotten."""
    last_event: float | None = None
    """When its last event was (the engine's wall time, UTC seconds); None: none yet."""


def salted(salt: str) -> str:
    """The key of a block that depends on a cache salt and on nothing else."""
    return repr((salt,))


def together(seen: Iterable[KvFollowed]) -> KvFollowed:
    """One instance as all router workers follow it: the least that any knows, all that befell."""
    all_ = list(seen)
    times = [one.last_event for one in all_ if one.last_event is not None]
    return KvFollowed(
        why_not=next((one.why_not for one in all_ if one.why_not), ""),
        blocks=min((one.blocks for one in all_), default=0),
        gaps=sum(one.gaps for one in all_),
        replays=sum(one.replays for one in all_),
        forgotten=sum(one.forgotten for one in all_),
        last_event=max(times, default=None),
    )
