"""The KV cache of one engine in blocks: reference counts, prefix reuse, least recently used first.

A freed block keeps what it holds until it is taken again, so a prompt whose beginning was seen
before finds it. Block 0 is never given out, as in vLLM.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from pdctl.simulated.publisher import BlockListener


def block_hashes(prompt: Sequence[int], block_size: int) -> list[bytes]:
    """A hash per full block, each over everything up to its end.

    The last token is left out: it has to be computed for its logits, so its block is never a hit.
    """
    hashes: list[bytes] = []
    previous = b""
    for start in range(0, (len(prompt) - 1) // block_size * block_size, block_size):
        packed = array("I", prompt[start : start + block_size]).tobytes()
        previous = blake2b(packed, digest_size=16, key=previous).digest()
        hashes.append(previous)
    return hashes


class BlockPool:
    """Blocks 1 to `capacity`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.listener: BlockListener | None = None
        """Told what blocks hold."""
        self._free: dict[int, None] = dict.fromkeys(range(1, capacity + 1))
        self._users = [0] * (capacity + 1)
        self._holds: dict[int, bytes] = {}
        self._found: dict[bytes, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks nobody uses."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1."""
        return 1.0 - len(self._free) / self.capacity

    def reuse(self, hashes: Sequence[bytes]) -> list[int]:
        """Take the blocks that still hold the longest known beginning of `hashes`."""
        taken: list[int] = []
        for one in hashes:
            block = self._found.get(one)
            if block is None:
                break
            if self._users[block] == 0:
                del self._free[block]
            self._users[block] += 1
            taken.append(block)
        return taken

    def take(self, count: int) -> list[int] | None:
        """Take `count` blocks, forgetting what they held; None when there are too few."""
        if count > len(self._free):
            return None
        taken = [self._take_oldest() for _ in range(count)]
        for block in taken:
            self._users[block] = 1
        return taken

    def remember(self, blocks: Sequence[int], hashes: Sequence[bytes]) -> list[int]:
        """Note what each of `blocks` holds; the first block to hold a hash keeps it.

        The places in `hashes` of those that are new.
        """
        new = []
        for place, (block, one) in enumerate(zip(blocks, hashes, strict=False)):
            if one not in self._found:
                self._found[one] = block
                self._holds[block] = one
                new.append(place)
        return new

    def forget_all(self) -> None:
        """No block holds anything that could be reused (vLLM's /reset_prefix_cache)."""
        self._found.clear()
        self._holds.clear()
        if self.listener is not None:
            self.listener.cleared()

    def release(self, blocks: Sequence[int]) -> None:
        """Give `blocks` back, the tail of a prompt to be forgotten before its beginning."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if self._users[block] == 0:
                self._free[block] = None

    def _take_oldest(self) -> int:
        block = next(iter(self._free))
        del self._free[block]
        held = self._holds.pop(block, None)
        if held is not None:
            del self._found[held]
            if self.listener is not None:
                self.listener.removed([held])
        return block
