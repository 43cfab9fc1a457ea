"""Real requests say which pairs work; a pair that fails them is set aside, its ends are not."""

from __future__ import annotations

from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Leg, Outcome, Path, RequestRecord
from tests.fakes.fleets import Plane, fleet
from tests.fakes.machine import World


def handed(plane: Plane, prefill: str, decode: str, failure: str = "") -> RequestRecord:
    """A request that was handed over now."""
    status, error = (500, "KV load failed") if failure else (200, "")
    legs = (
        Leg("prefill", prefill, "", 0.0, status=200),
        Leg("decode", decode, "", 5.0, status=status, error=error, failure=failure),
    )
    return RequestRecord(
        id="r", received_at=plane.clock.now(), endpoint="/v1/completions", model="tiny",
        stream=False, mode="pd", path=Path.PD, path_reason="", outcome=Outcome.OK, status=200,
        legs=legs,
    )  # fmt: skip


async def fail(plane: Plane, prefill: str, decode: str, times: int = 3) -> None:
    """That many requests fail on the pair."""
    await plane.clock.advance(1)
    for _ in range(times):
        plane.reconciler.on_record(handed(plane, prefill, decode, "status"))
    await plane.clock.settle()


async def test_a_pair_that_fails_requests_is_quarantined_and_its_ends_serve_on(
    world: World,
) -> None:
    async with Plane(world, fleet(2, 1)) as plane:
        await plane.ready()
        await fail(plane, "prefill-0", "decode-0")
        pair = plane.pair("prefill-0", "decode-0")
        assert pair.state == "quarantined"
        assert plane.data_plane.table.pairs == (("prefill-1", "decode-0"),)
        assert plane.data_plane.accepting == {"prefill-0", "prefill-1", "decode-0"}
        told = plane.events(EventKind.PAIR_CHANGED, "prefill-0>decode-0")[-1]
        assert told.data["state"] == "quarantined"
        assert "KV load failed" in told.data["message"]


async def test_its_probe_puts_it_back(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        await fail(plane, "prefill-0", "decode-0")
        assert not plane.data_plane.table.pairs
        took = await plane.clock.until(lambda: plane.pair("prefill-0", "decode-0").state == "ok")
        assert 4 <= took <= 8
        assert len(plane.data_plane.table.pairs) == 1
        await fail(plane, "prefill-0", "decode-0")
        again = await plane.clock.until(lambda: plane.pair("prefill-0", "decode-0").state == "ok")
        assert again > took + 3


async def test_a_probe_that_fails_too_has_the_last_word(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        world.bad_pairs = {("prefill-0", "decode-0")}
        await fail(plane, "prefill-0", "decode-0")
        await plane.clock.until(lambda: plane.pair("prefill-0", "decode-0").state == "failing")
        assert "no transfer was seen" in plane.pair("prefill-0", "decode-0").message
        assert plane.pair("prefill-0", "decode-0").handoff_ms is None, "no handoff, no duration"
        assert plane.all_ready()


async def test_a_restart_of_an_end_clears_it(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        await fail(plane, "prefill-0", "decode-0")
        world.crash("decode-0")
        await plane.ready()
        pair = plane.pair("prefill-0", "decode-0")
        assert (pair.state, pair.quarantines, pair.generations) == ("ok", 0, (1, 2))


async def test_records_of_instances_that_are_gone_change_nothing(world: World) -> None:
    async with Plane(world, fleet(1, 1)) as plane:
        await plane.ready()
        before = plane.feed.seq
        await fail(plane, "prefill-9", "decode-0", times=9)
        assert plane.feed.seq == before
        assert plane.data_plane.table.pairs == (("prefill-0", "decode-0"),)
