"""Signals kept: told, taken up, silenced, sent, and found again after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.control.signals.desk import SignalDesk
from pdctl.domain.audit import AuditQuery
from pdctl.domain.errors import InternalError, NotFoundError, OperatorError
from pdctl.domain.events import Event, EventKind
from pdctl.domain.lifecycle import Phase
from pdctl.domain.signals.book import Signal, State
from pdctl.domain.topology import SignalRuleSpec, SignalsSpec, WebhookSpec
from pdctl.tasks import settle, spawn
from tests.fakes.clock import VirtualClock
from tests.fakes.signals import desk_of
from tests.fakes.world import World

ME = {"actor": "me", "source": "cli"}


class Scene:
    """A made-up fleet that is watched."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.world = World(self.clock, "normal", folder)
        self.world.state.adopted = True
        assert self.world.plane.signals is not None
        self.desk: SignalDesk = self.world.plane.signals

    def put(self, id_: str, **fields: Any) -> None:
        """Let an instance be so."""
        fleet = self.world.state.fleet
        instances = [replace(one, **fields) if one.id == id_ else one for one in fleet.instances]
        self.world.state.set_observed(instances, fleet.pairs, (), fleet.seq)

    def fill(self, id_: str, share: float) -> None:
        """Its KV cache, with fresh metrics everywhere."""
        now = self.clock.now()
        for one in self.world.state.fleet.instances:
            if one.stats is not None:
                usage = share if one.id == id_ else one.stats.kv_usage
                self.put(one.id, stats=replace(one.stats, at=now, kv_usage=usage))

    async def look(self, id_: str, share: float, times: int) -> None:
        """Some looks, 2 s apart."""
        for _ in range(times):
            await self.clock.advance(2)
            self.fill(id_, share)
            self.desk.look()

    def told(self) -> list[Event]:
        """What the feed was told of signals."""
        recent = self.world.feed.recent(10_000)
        return [one for one in recent if one.kind is EventKind.SIGNAL_CHANGED]

    @property
    def firing(self) -> list[str]:
        return [one.id for one in self.desk.all() if one.state is State.FIRING]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_full_cache_fires_is_told_and_resolves(scene: Scene) -> None:
    await scene.look("prefill-0", 0.97, 10)
    assert scene.firing == []
    assert scene.desk.loud() == 0
    await scene.look("prefill-0", 0.97, 10)
    assert scene.firing == ["kv_nearly_full:prefill-0"]
    assert scene.desk.loud() == 1
    (told,) = scene.told()
    assert told.subject == "prefill-0"
    assert told.data["state"] == "firing"
    assert told.data["message"] == "KV cache is nearly full. 0 requests wait in the engine"
    await scene.look("prefill-0", 0.2, 20)
    assert scene.firing == []
    assert [one.data["state"] for one in scene.told()] == ["firing", "resolved"]


async def test_the_fleet_file_is_followed_live(scene: Scene) -> None:
    desired = scene.world.state.fleet.desired
    rules = (SignalRuleSpec("kv_nearly_full", threshold=0.5, for_s=0),)
    scene.world.state.set_desired(replace(desired, signals=SignalsSpec(rules=rules)))
    await scene.look("prefill-0", 0.6, 1)
    assert scene.firing == ["kv_nearly_full:prefill-0"]
    scene.world.state.set_desired(replace(desired, signals=SignalsSpec(enabled=False)))
    await scene.look("prefill-0", 0.6, 1)
    assert scene.desk.all() == []


async def test_what_somebody_has_taken_up_is_not_counted(scene: Scene) -> None:
    scene.put("decode-0", phase=Phase.FAILED, message="bad flag")
    scene.desk.look()
    done = await scene.desk.ack("given_up:decode-0", note="on it", **ME)
    assert done.ack is not None
    assert (done.ack.by, done.ack.note) == ("me", "on it")
    assert scene.desk.loud() == 0
    assert scene.firing == ["given_up:decode-0"]
    scene.desk.look()
    assert scene.desk.all()[0].ack == done.ack
    log = await scene.world.store.audit(AuditQuery(verb="ack_signal"))
    assert [(one.subject, one.actor, one.outcome) for one in log] == [("decode-0", "me", "done")]
    with pytest.raises(NotFoundError, match="given_up:decode-0"):
        await scene.desk.ack("given_up:decode-9", note="", **ME)
    scene.put("decode-0", phase=Phase.READY)
    await scene.look("decode-0", 0.2, 20)
    assert scene.firing == []
    scene.put("decode-0", phase=Phase.FAILED)
    scene.desk.look()
    assert scene.desk.loud() == 1  # another time, not taken up


async def test_a_silence_keeps_quiet_and_ends_by_itself(scene: Scene) -> None:
    desired = scene.world.state.fleet.desired
    hook = SignalsSpec(webhook=WebhookSpec("env:HOOK"))
    scene.world.state.set_desired(replace(desired, signals=hook))
    made = await scene.desk.silence(
        rule="given_up", subject="decode-*", for_s=600, note="upgrade", **ME
    )
    scene.put("decode-0", phase=Phase.FAILED)
    scene.desk.look()
    (fires,) = [one for one in scene.desk.all() if one.state is State.FIRING]
    assert scene.desk.silenced(fires) == made
    assert scene.desk.loud() == 0
    assert not scene.desk.courier.awaits(fires)
    await scene.clock.advance(600)
    await scene.look("decode-0", 0.2, 1)
    assert scene.desk.silences() == []
    assert scene.desk.loud() == 1
    assert scene.desk.courier.awaits(fires)
    with pytest.raises(NotFoundError):
        await scene.desk.unsilence(made.id, **ME)


async def test_a_silence_is_ended_by_hand_and_refused_for_a_rule_that_is_misspelt(
    scene: Scene,
) -> None:
    made = await scene.desk.silence(rule="*", subject="*", for_s=600, note="", **ME)
    assert await scene.desk.unsilence(made.id, **ME) == made
    assert await scene.world.store.silences(after=0.0) == []
    with pytest.raises(OperatorError, match="Did you mean 'stall'"):
        await scene.desk.silence(rule="stal", subject="*", for_s=600, note="", **ME)


async def test_a_store_that_fails_changes_nothing_and_says_so(scene: Scene) -> None:
    scene.put("decode-0", phase=Phase.FAILED)
    scene.desk.look()
    scene.world.store.failing = True
    with pytest.raises(InternalError):
        await scene.desk.ack("given_up:decode-0", note="", **ME)
    with pytest.raises(InternalError):
        await scene.desk.silence(rule="*", subject="*", for_s=600, note="", **ME)
    assert scene.desk.loud() == 1
    assert scene.desk.silences() == []


async def test_the_next_pdctl_goes_on_where_this_one_was_killed(scene: Scene) -> None:
    scene.put("decode-0", phase=Phase.FAILED)
    async with running(scene.desk):
        await scene.clock.until(lambda: bool(scene.world.store.signals), limit_s=30)
        made = await scene.desk.silence(rule="stall", subject="*", for_s=6000, note="", **ME)
        await scene.desk.ack("given_up:decode-0", note="on it", **ME)
        fired = scene.desk.all()[0]
    scene.world.state.adopted = False
    async with running(desk := desk_of(scene.world)):
        await scene.clock.advance(60)
        assert desk.all()[0] == fired  # nothing is judged before it is known what runs
        assert desk.silences() == [made]
        scene.world.state.adopted = True
        await scene.clock.advance(10)
        (again,) = [one for one in desk.all() if one.rule == "given_up"]
        assert (again.fired_at, again.since, again.ack) == (fired.fired_at, fired.since, fired.ack)
        assert [one.data["acknowledged_by"] for one in scene.told()][:2] == ["", "me"]
        scene.put("decode-0", phase=Phase.READY)
        await scene.clock.until(lambda: "given_up" not in {one.rule for one in desk.all()})
        (over,) = await history(desk)
        assert (over.episode, over.state) == (fired.episode, State.RESOLVED)


@asynccontextmanager
async def running(desk: SignalDesk) -> AsyncIterator[None]:
    """Watch until the block is left, which is a kill."""
    task = spawn(desk.run(), name="signals")
    try:
        yield
    finally:
        await settle(task)


async def history(desk: SignalDesk) -> list[Signal]:
    return [one for one in await desk.history(None, 50) if one.rule == "given_up"]
