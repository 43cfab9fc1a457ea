"""The truth meter over the API."""

from __future__ import annotations

from dataclasses import replace

from tests.domain.test_goodput import handed
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.domain.handoff import Load, Outcome
from pdctl.domain.instance import EngineStats


async def test_a_silent_recompute_is_named(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    def scrape(local: float) -> None:
        one = next(one for one in world.state.fleet.instances if one.id == "decode-0")
        stats = EngineStats(at=clock.now(), prompt_tokens_local=local)
        world.change("decode-0", one.phase, one.reason, one.message, stats=stats)
        world.plane.truth.look()

    scrape(0)
    await clock.advance(2)
    world.plane.truth.add(handed(received_at=clock.now() - 1, remote_tokens=700))
    await clock.advance(2)
    scrape(700)
    page = await client.truth(60)
    assert page.simulated
    assert (page.fleet.recomputed, page.fleet.recomputed_tokens, page.fleet.share) == (1, 700, 0.0)
    (pair,) = page.groups
    assert (pair.by, pair.recomputed) == ("pair:prefill-0>decode-0", 1)


async def test_pinned_kv_is_listed_with_its_age(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    world.load = Load(1, held={"prefill-0": (3, clock.monotonic() - 2.0)})
    gone = handed(id="gone", received_at=clock.now() - 4.0, outcome=Outcome.CLIENT_GONE)
    world.plane.truth.add(replace(gone, legs=gone.legs[:1], remote_tokens=96))
    page = await client.truth(None)
    (waiting,), (lost,) = page.leases, page.stranded
    assert (waiting.prefill, waiting.requests, waiting.oldest_s) == ("prefill-0", 3, 2.0)
    assert (lost.request, lost.tokens) == ("gone", 96)
    assert lost.age_s < lost.lease_s
    assert page.fleet.share is None
