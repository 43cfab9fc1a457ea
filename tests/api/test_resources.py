"""Every resource through the public client, in process: what the faces rely on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.client.admin import AdminClient
from pdctl.client.errors import Conflict, Failed, NotFound
from pdctl.domain.events import EventKind
from pdctl.domain.handoff import Load
from pdctl.domain.instance import EngineStats
from pdctl.domain.lifecycle import Phase, Reason
from pdctl.domain.topology import Mode


async def test_the_fleet_is_desired_beside_observed(client: AdminClient, world: World) -> None:
    fleet = await client.fleet()
    assert (fleet.shape, fleet.mode, fleet.simulated) == ("2p3d", Mode.PD, True)
    assert [(pool.name, pool.desired, pool.ready) for pool in fleet.pools] == [
        ("prefill", 2, 2),
        ("decode", 3, 1),
    ]
    assert fleet.pools[1].phase is Phase.DRAINING
    assert {one.id for one in fleet.instances} == {one.id for one in world.state.fleet.instances}
    assert fleet.position == f"{world.plane.epoch}-{world.feed.seq}"
    assert len(fleet.pairs) == 6
    assert (await client.fleet(pairs=False)).pairs == []


async def test_deadlines_are_told_as_time_left(client: AdminClient, clock: VirtualClock) -> None:
    before = (await client.instance("decode-1")).drain_left_s
    await clock.advance(30)
    after = (await client.instance("decode-1")).drain_left_s
    assert before is not None
    assert after == pytest.approx(before - 30)
    await clock.advance(3600)
    assert (await client.instance("decode-1")).drain_left_s == 0


async def test_an_old_scrape_is_shown_as_stale(client: AdminClient, clock: VirtualClock) -> None:
    fresh = (await client.instance("prefill-0")).stats
    await clock.advance(6.5)
    old = (await client.instance("prefill-0")).stats
    assert fresh is not None
    assert old is not None
    assert (fresh.stale, old.stale) == (False, True)


async def test_token_rate_needs_two_scrapes_and_survives_a_reset(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    async def seen(tokens: float) -> float | None:
        await clock.advance(2)
        stats = EngineStats(at=clock.now(), generation_tokens=tokens)
        world.change(
            "prefill-0", Phase.READY, world.state.fleet.instances[0].reason, "", stats=stats
        )
        found = (await client.instance("prefill-0")).stats
        assert found is not None
        return found.generation_tokens_per_s

    assert await seen(100) is None
    assert await seen(300) == pytest.approx(100)
    assert (await client.fleet()).instances[0].stats == (await client.instance("prefill-0")).stats
    assert await seen(5) is None
    assert await seen(25) == pytest.approx(10)


async def test_no_rate_is_negative_after_any_counter_began_anew(
    client: AdminClient, world: World, clock: VirtualClock
) -> None:
    reason = world.state.fleet.instances[0].reason
    for cached, bytes_ in ((100.0, 500.0), (50.0, 900.0)):
        await clock.advance(2)
        stats = EngineStats(at=clock.now(), prompt_tokens_cached=cached, nixl_bytes=bytes_)
        world.change("prefill-0", Phase.READY, reason, "", stats=stats)
        found = (await client.instance("prefill-0")).stats
    assert found is not None
    assert found.prompt_tokens_per_s is None
    assert found.nixl_bytes_per_s == pytest.approx(200)
    assert found.preemptions_per_s is None, "this engine does not tell"


async def test_an_instance_launched_with_other_flags_is_outdated(
    client: AdminClient, world: World
) -> None:
    assert not (await client.instance("prefill-0")).outdated
    one = world.state.fleet.instances[0]
    world.change("prefill-0", one.phase, one.reason, "", fingerprint="of other flags")
    assert (await client.instance("prefill-0")).outdated


async def test_lists_and_single_ones_agree(client: AdminClient) -> None:
    assert [await client.pool(pool.name) for pool in await client.pools()] == await client.pools()
    for one in await client.instances():
        assert await client.instance(one.id) == one
    assert len(await client.pairs()) == 6


async def test_the_command_is_redacted(client: AdminClient) -> None:
    command = await client.command("decode-0")
    assert command.argv[:3] == ["python", "-m", "pdctl.simulated"]
    assert command.env["HF_TOKEN"] == "********"


async def test_mode_switches_and_says_who_asked(client: AdminClient, world: World) -> None:
    assert (await client.mode()).since is None
    answer = await client.set_mode("chunked")
    assert answer.mode is Mode.CHUNKED
    assert answer.since is not None
    told = [event for event in world.feed.recent(50) if event.kind is EventKind.OPERATION]
    assert [(event.data["actor"], event.data["source"]) for event in told] == [("loopback", "web")]
    again = await client.set_mode(Mode.CHUNKED)
    assert again.since == answer.since


async def test_verbs_on_instances(client: AdminClient, world: World) -> None:
    assert (await client.restart("prefill-0")).phase is Phase.DRAINING
    with pytest.raises(Conflict) as caught:
        await client.restart("prefill-0")
    assert caught.value.problem.code == "not_ready"
    assert caught.value.problem.hint == "Wait until it is ready."
    world.change("decode-2", Phase.FAILED, Reason.EXITED, "gave up")
    assert (await client.clear("decode-2")).phase is Phase.PENDING


async def test_what_does_not_exist_is_named_with_what_does(client: AdminClient) -> None:
    for call in (client.instance, client.command, client.restart, client.clear, client.logs):
        with pytest.raises(NotFound) as caught:
            await call("decode-9")
        assert "decode-9" in str(caught.value)
        assert "prefill-0" in caught.value.problem.hint
    with pytest.raises(NotFound, match="no pool"):
        await client.pool("draft")


async def test_logs_and_previous_logs(client: AdminClient, world: World) -> None:
    text = await client.logs("prefill-0", tail=3)
    assert text.count("\n") == 3
    assert "simulated" in text
    assert await client.logs("prefill-0", tail=0) == ""
    with pytest.raises(NotFound, match="no log of an earlier start"):
        await client.logs("prefill-0", previous=True)
    (world.folder / "prefill-0.previous.log").write_text("the end \N{SNOWMAN}\n", encoding="utf-8")
    assert await client.logs("prefill-0", previous=True) == "the end \N{SNOWMAN}\n"


async def test_latency_over_time(client: AdminClient) -> None:
    page = await client.latency_series(["ttft"], ["all", "mode:pd", "pool:nobody"], 3600)
    every, handed, nobody = page.items
    assert (every.slice_s, nobody.points) == (60, [])
    whole = (await client.histograms("ttft", "all", 3600)).items[0]
    assert sum(point.count for point in every.points) == whole.count > 0
    assert sum(point.count for point in handed.points) < whole.count
    point = every.points[-1]
    assert point.p50_ms is not None
    assert point.p99_ms is not None
    assert point.p50_ms <= point.p99_ms
    assert point.at <= page.at


async def test_histograms_come_as_asked(client: AdminClient) -> None:
    page = await client.histograms(["ttft", "itl"], ["all", "mode:pd"], [60, None])
    asked = [(one.metric, one.by, one.window_s) for one in page.items]
    assert asked == [
        (metric, by, window)
        for metric in ("ttft", "itl")
        for by in ("all", "mode:pd")
        for window in (60, None)
    ]
    first = page.items[0]
    assert first.count == sum(count for *_, count in first.buckets)
    assert first.p50_ms is not None
    assert first.p99_ms is not None
    assert first.p50_ms <= first.p99_ms
    assert "pool:decode" in page.known
    empty = (await client.histograms("e2e", "instance:nobody")).items[0]
    assert (empty.count, empty.p50_ms, empty.window_s) == (0, None, 300)
    with pytest.raises(Failed, match="metric"):
        await client.histograms("speed")


async def test_version_and_description(client: AdminClient) -> None:
    assert await client.version() == (await client.fleet()).version


async def test_the_front_door_counts_requests_and_not_their_legs(
    client: AdminClient, world: World
) -> None:
    world.load = Load(1, {"prefill-0": 2, "decode-0": 2}, queued=1)
    world.plane.open_paths = lambda: {"pd": 2}
    router = (await client.fleet()).router
    assert (router.inflight, router.queued) == (2, 1)


async def test_every_answer_with_numbers_says_that_they_are_simulated(
    client: AdminClient, world: World
) -> None:
    await client.set_mode("chunked")
    some = (await client.requests(1)).items[0]
    assert some.simulated
    answers: list[Any] = [
        await client.requests(1), await client.request(some.id), await client.histograms(),
        await client.mode(), await client.events_page(), await client.fleet(),
    ]  # fmt: skip
    assert all(answer.simulated for answer in answers)
    real = replace(world.state.fleet.desired.engine, kind="vllm")
    world.state.set_desired(replace(world.state.fleet.desired, engine=real))
    assert not (await client.requests(1)).simulated
    assert not (await client.instance("prefill-0")).in_process


async def test_an_engine_inside_this_process_is_no_process(
    client: AdminClient, world: World
) -> None:
    assert not (await client.instance("prefill-0")).in_process, "the shim's child is one"
    inside = replace(world.state.fleet.desired.engine, launcher="simulated")
    world.state.set_desired(replace(world.state.fleet.desired, engine=inside))
    assert (await client.instance("prefill-0")).in_process
    assert (await client.command("prefill-0")).in_process


async def test_a_pair_does_not_look_well_without_its_ends(
    client: AdminClient, world: World
) -> None:
    world.change("prefill-0", Phase.DRAINING, Reason.OPERATOR, "")
    states = {pair.state for pair in await client.pairs() if pair.prefill == "prefill-0"}
    said = {pair.message for pair in await client.pairs() if pair.state == "paused"}
    assert "ok" not in states
    assert "prefill-0 is draining" in said
