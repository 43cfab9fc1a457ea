"""/metrics: documented to the last family, bounded, valid in both formats, honest when old."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import httpx2
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.api.exposition.route import families
from pdctl.domain.handoff import Circuit, Load
from pdctl.domain.instance import EngineStats
from pdctl.domain.kv_events import KvFollowed

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE)
OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
SUFFIX = {"counter": "_total", "info": "_info"}


def full(clock: VirtualClock) -> EngineStats:
    """An engine that tells everything."""
    told = dict.fromkeys(EngineStats.__dataclass_fields__, 7.0)
    return EngineStats(**{**told, "at": clock.now(), "ranks": 2})  # type: ignore[arg-type]


def test_every_family_is_documented_as_it_is(world: World, clock: VirtualClock) -> None:
    first = world.state.fleet.instances[0]
    world.change(first.id, first.phase, first.reason, "", stats=full(clock))
    load = Load(0, {"decode-0": 1}, 0, {"pd": 1}, {"decode-0": Circuit("open", "refused")})
    world.load = replace(load, kv_events={"decode-0": KvFollowed("", 7, 1, 1, 0, 0.0)})
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    documented = {
        name: (type_, set(re.findall(r"`(\w+)`", labels)))
        for name, type_, _, labels, _ in ROW.findall(page)
    }
    shown: dict[str, tuple[str, set[str]]] = {}
    for family in families(world.plane):
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[family.name + SUFFIX.get(family.type, "")] = (family.type, labels)
    assert set(documented) == set(shown)
    for name, (type_, labels) in shown.items():
        assert documented[name][0] == type_, name
        assert labels <= documented[name][1], name
    assert all(what.strip() for *_, what in ROW.findall(page))


async def test_both_formats_say_the_same(http: httpx2.AsyncClient) -> None:
    plain = {one.name for one in parse((await http.get("/metrics")).text)}
    answer = await http.get("/metrics", headers=OPENMETRICS)
    opened = {one.name for one in parse_openmetrics(answer.text)}  # type: ignore[no-untyped-call]
    assert {name.removesuffix("_info") for name in plain} == {
        name.removesuffix("_info") for name in opened
    }


async def test_an_old_scrape_is_absent_and_its_age_is_not(
    http: httpx2.AsyncClient, world: World, clock: VirtualClock
) -> None:
    first = world.state.fleet.instances[0]
    world.change(first.id, first.phase, first.reason, "", stats=full(clock))
    mark = f'{{instance="{first.id}"}}'
    fresh = (await http.get("/metrics")).text
    assert f"pdctl_engine_nixl_bytes_total{mark} 7.0" in fresh
    await clock.advance(world.plane.scrape_interval_s * 3 + 1)
    old = (await http.get("/metrics")).text
    assert f"pdctl_engine_nixl_bytes_total{mark}" not in old
    assert f"pdctl_engine_scrape_age_seconds{mark} 7.0" in old


async def test_what_an_engine_does_not_tell_is_no_zero(
    http: httpx2.AsyncClient, world: World, clock: VirtualClock
) -> None:
    first = world.state.fleet.instances[0]
    stats = replace(full(clock), nixl_bytes=None)
    world.change(first.id, first.phase, first.reason, "", stats=stats)
    text = (await http.get("/metrics")).text
    assert f'pdctl_engine_nixl_bytes_total{{instance="{first.id}"}}' not in text
    assert f'pdctl_engine_nixl_transfers_total{{instance="{first.id}"}} 7.0' in text


async def test_200_instances_are_told_in_bounds(clock: VirtualClock, tmp_path: Path) -> None:
    world = World(clock, "huge", tmp_path)
    for one in world.state.fleet.instances:
        world.change(one.id, one.phase, one.reason, "", stats=full(clock))
    transport = httpx2.ASGITransport(create_api(world.plane, token=None))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        text = (await http.get("/metrics")).text
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    count = len(world.state.fleet.instances)
    assert count == 200
    assert 30 * count < len(samples) < 60 * count
