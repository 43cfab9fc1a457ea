"""The truth meter over scrapes that come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.control.truth import PATIENCE_S, TruthBook
from pdctl.domain.handoff import Load, Outcome
from pdctl.domain.instance import EngineStats
from pdctl.domain.truth import Kv
from tests.domain.test_goodput import handed
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World


@dataclass
class Scene:
    world: World
    clock: VirtualClock
    book: TruthBook
    load: Load

    def scrape(self, id_: str = "decode-0", **counters: Any) -> None:
        stats = EngineStats(at=self.clock.now(), **counters)
        one = self.world.state.fleet.instance(id_)
        assert one is not None
        fleet = self.world.state.fleet
        others = [replace(one, stats=stats) if x.id == id_ else x for x in fleet.instances]
        self.world.state.set_observed(others, fleet.pairs, fleet.notes, fleet.seq)
        self.book.look()

    def finish(self, id_: str, **fields: Any) -> None:
        """A handed-over request of 0.5 s that ends now."""
        done = handed(id=id_, received_at=self.clock.now() - 0.5, remote_tokens=1000, **fields)
        self.book.add(done)

    def counts(self, by: str = "all") -> dict[str, float]:
        return self.book.view(by, None).by


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    clock = VirtualClock(settle=0)
    world = World(clock, "normal", tmp_path)
    load = Load(0)
    return Scene(world, clock, TruthBook(world.state, clock, lambda: load), load)


async def test_a_request_is_judged_with_the_next_scrape(scene: Scene) -> None:
    scene.scrape(prompt_tokens_remote=0)
    await scene.clock.advance(2.0)
    scene.finish("a")
    scene.book.look()
    assert (scene.book.pending, scene.book.of("a")) == (1, None)
    await scene.clock.advance(1.0)
    scene.scrape(prompt_tokens_remote=1000)
    assert (scene.book.pending, scene.book.of("a")) == (0, Kv.MOVED)
    await scene.clock.advance(1.0)
    scene.finish("b")
    await scene.clock.advance(1.0)
    scene.scrape(prompt_tokens_remote=1000, prompt_tokens_local=1000)
    assert scene.book.of("b") is Kv.RECOMPUTED
    pair = scene.counts("pair:prefill-0>decode-0")
    assert pair == {
        "moved": 1.0, "moved_tokens": 1000.0, "recomputed": 1.0, "recomputed_tokens": 1000.0,
    }  # fmt: skip
    assert scene.counts() == pair


async def test_without_a_scrape_it_is_unknown_and_nothing_waits_for_ever(scene: Scene) -> None:
    scene.scrape()
    await scene.clock.advance(1.0)
    scene.finish("a")
    await scene.clock.advance(PATIENCE_S + 1)
    scene.book.look()
    assert scene.book.of("a") is Kv.UNKNOWN
    assert scene.book.pending == 0


async def test_a_restart_of_the_engine_begins_anew(scene: Scene) -> None:
    scene.scrape(prompt_tokens_remote=5000, nixl_expired=3)
    one = scene.world.state.fleet.instance("decode-0")
    assert one is not None
    await scene.clock.advance(1.0)
    scene.finish("a")
    scene.world.change("decode-0", one.phase, one.reason, "", nonce="another")
    await scene.clock.advance(1.0)
    scene.scrape(prompt_tokens_remote=10, nixl_expired=0)
    assert scene.book.of("a") is Kv.UNKNOWN
    assert "expired" not in scene.counts()


async def test_nixls_own_counters_are_counted_by_growth(scene: Scene) -> None:
    scene.scrape("prefill-0", nixl_expired=3, nixl_late=0, nixl_failures=7)
    await scene.clock.advance(1.0)
    scene.scrape("prefill-0", nixl_expired=5, nixl_late=1, nixl_failures=7)
    assert scene.counts("instance:prefill-0") == {"expired": 2.0, "late": 1.0}
    assert scene.counts() == {"expired": 2.0, "late": 1.0}


async def test_the_board_shows_what_waits_and_what_is_stranded_until_its_lease_ends(
    scene: Scene,
) -> None:
    scene.load.held["prefill-0"] = (2, scene.clock.monotonic() - 3.0)
    (waiting,) = scene.book.leases()
    assert (waiting.prefill, waiting.requests, waiting.oldest_s) == ("prefill-0", 2, 3.0)
    lost = handed(id="gone", received_at=scene.clock.now(), outcome=Outcome.CLIENT_GONE)
    scene.book.add(replace(lost, legs=lost.legs[:1]))
    (one,) = scene.book.stranded()
    assert (one.request, one.prefill) == ("gone", "prefill-0")
    assert scene.counts("instance:prefill-0") == {"stranded": 1.0}
    await scene.clock.advance(scene.world.state.fleet.desired.connector.lease_s + 1.0)
    assert scene.book.stranded() == []
    assert scene.counts()["stranded"] == 1.0
