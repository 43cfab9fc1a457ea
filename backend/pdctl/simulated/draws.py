"""Seeded draws that any engine repeats exactly: ids, jitter. Not for secrets."""

from __future__ import annotations

from hashlib import blake2b


class Draws:
    """A counter hashed with a seed; the same seed and name give the same sequence."""

    def __init__(self, seed: int, name: str) -> None:
        self._key = blake2b(f"{seed}/{name}".encode(), digest_size=32).digest()
        self._count = 0

    def hexadecimal(self, digits: int) -> str:
        """`digits` hexadecimal digits, at most 64."""
        return self._next().hex()[:digits]

    def signed_unit(self) -> float:
        """A number in [-1, 1)."""
        return int.from_bytes(self._next()[:6], "big") / 2**47 - 1.0

    def _next(self) -> bytes:
        self._count += 1
        return blake2b(self._count.to_bytes(8, "big"), digest_size=32, key=self._key).digest()
