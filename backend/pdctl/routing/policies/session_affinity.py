"""One session, one instance, for as long as that is bearable.

Rendezvous hashing: each session ranks all instances, and goes to the first. An instance that comes
or goes moves only the sessions that rank it first. No instance takes much more than its share of
open legs (Mirrokni et al., "Consistent Hashing with Bounded Loads", 2018): the next in rank does.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import ceil

from pdctl.routing.facts import RequestFacts
from pdctl.routing.policy import Candidate, Chance, Choice, least, work

MOST = 1.25
"""Times the mean of open legs that an instance may have."""
FREE = 4
"""Legs that are never too many: a mean of nearly nothing binds nobody."""


class SessionAffinity:
    """Every router worker, and every later one, ranks alike: the hash is not salted."""

    name = "session_affinity"

    def choose(
        self, candidates: Sequence[Candidate], facts: RequestFacts, rng: Chance
    ) -> Choice | None:
        """The session's home or the next in rank; the least loaded for a request without one."""
        if not candidates:
            return None
        count = len(candidates)
        if not facts.session:
            best = least(candidates)
            return Choice(best.id, f"no session; least loaded of {count}: {work(best)}")
        ranked = sorted(candidates, key=lambda one: _rank(facts.session, one.id), reverse=True)
        bound = max(FREE, ceil(MOST * (1 + sum(one.legs for one in candidates)) / count))
        found = next((one for one in ranked if one.legs < bound), ranked[0])
        if found is ranked[0]:
            return Choice(found.id, f"home of its session among {count}: {work(found)}")
        return Choice(
            found.id,
            f"its session's home {ranked[0].id} has {ranked[0].legs} legs, the bound is {bound}; "
            f"next in rank of {count}: {work(found)}",
        )


def _rank(session: str, id_: str) -> bytes:
    return blake2b(f"{session}\0{id_}".encode(errors="replace"), digest_size=8).digest()


POLICY = SessionAffinity()
