"""The screen of signals: what they mean, and the verbs on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pdctl.domain.lifecycle import Phase
from pdctl_console.screens.signals import SignalsScreen
from tests.console.stage import Stage, staged
from tests.fakes.signals import look


async def broken(stage: Stage) -> None:
    """decode-0 is given up, that has been seen, and the screen shows it."""
    fleet = stage.world.state.fleet
    instances = [
        replace(one, phase=Phase.FAILED, message="bad flag") if one.id == "decode-0" else one
        for one in fleet.instances
    ]
    stage.world.state.set_observed(instances, fleet.pairs, (), fleet.seq)
    look(stage.world)
    await stage.told()
    await stage.go("9", "signals")


async def test_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (160, 40)) as stage:
        await stage.go("9", "signals")
        await stage.shows("Nothing is wrong", "rules are watched")
        await broken(stage)
        text = await stage.shows("▲ firing", "▲ 1 signal ", "An instance was given up", "bad flag")
        assert "Do: Read why with `pdctl logs decode-0 --previous`" in text
        await stage.press("enter")
        await stage.shows("Fires since")
        await stage.press("escape", "i")
        await stage.shows("Esc closes", "decode-0")
        await stage.press("escape", "w")
        await stage.shows("What is watched", "vllm:nixl_num_kv_expired_reqs")


async def test_it_is_taken_up_silenced_and_found_in_the_history(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (160, 40)) as stage:
        await broken(stage)
        await stage.shows("▲ 1 signal ")
        await stage.press("a")
        await stage.shows("pdctl signals ack given_up:decode-0")
        await stage.press("y")
        await stage.shows("loopback")
        await stage.until(lambda: "▲ 1 signal" not in stage.text())
        await stage.press("s")
        await stage.shows("pdctl signals silence given_up --subject decode-0 --for 1h")
        await stage.press("y")
        await stage.shows("1 silence")
        await stage.press("s")
        await stage.shows("End silence ")
        await stage.press("y")
        await stage.until(lambda: "1 silence" not in stage.text())
        await stage.press("h")
        await stage.shows("Signals that fired", "given_up:decode-0")


async def test_read_only_looks_and_takes_nothing_up(tmp_path: Path) -> None:
    async with staged("normal", tmp_path, (160, 40), read_only=True) as stage:
        await broken(stage)
        await stage.press("a")
        await stage.shows("read-only and cannot do that: Take up")
        assert isinstance(stage.app.screen, SignalsScreen)
