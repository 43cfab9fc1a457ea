"""Probes and numbers for machines: livez, readyz, metrics."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from random import Random

import httpx2
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.api.exposition.latency import cumulated, total_seconds
from pdctl.api.health import handoff, servable
from pdctl.client.admin import AdminClient
from pdctl.domain.fleet import Fleet
from pdctl.domain.histogram import Histogram
from pdctl.domain.lifecycle import Phase
from pdctl.domain.topology import Mode


@pytest.fixture
def router(world: World) -> socket.socket:
    """Something that listens where the router should be."""
    listener = socket.create_server(("127.0.0.1", 0))
    world.plane.data_plane_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    return listener


async def test_ready_when_everything_is(
    client: AdminClient, http: httpx2.AsyncClient, router: socket.socket
) -> None:
    with router:
        view = await client.ready()
        assert view.ready
        assert [check.name for check in view.checks] == ["store", "router", "path", "handoff"]
        plain = await http.get("/readyz")
        assert (plain.status_code, plain.text) == (200, "ok\n")


async def test_each_thing_that_fails_is_named_with_what_to_do(
    client: AdminClient, http: httpx2.AsyncClient, world: World, router: socket.socket
) -> None:
    router.close()
    world.store.failing = True
    world.state.set_observed([], [], [], 0)
    view = await client.ready()
    assert not view.ready
    assert all(not check.ok and check.detail and check.fix for check in view.checks)
    plain = await http.get("/readyz")
    assert plain.status_code == 503
    assert plain.text.count("\n") == 4
    assert "The disk is full." in plain.text


async def test_a_store_that_hangs_is_said_and_stops_no_request(
    client: AdminClient, world: World, router: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang() -> dict[str, object]:
        await asyncio.sleep(3600)
        return {}

    monkeypatch.setattr(world.store, "check", hang)
    monkeypatch.setattr("pdctl.api.health.CHECK_S", 0.05)
    with router:
        view = await client.ready()
    assert view.ready
    assert [check.name for check in view.checks if not check.ok] == ["store"]
    assert view.checks[0].detail == "TimeoutError"


def test_what_serves_depends_on_the_mode(world: World) -> None:
    fleet = world.state.fleet
    assert servable(fleet).ok
    assert handoff(fleet)[0].ok
    unproved = replace(fleet, pairs=tuple(replace(p, state="failing") for p in fleet.pairs))
    assert servable(unproved).ok, "the router serves it whole"
    assert not handoff(unproved)[0].ok
    chunked = replace(unproved, desired=replace(fleet.desired, mode=Mode.CHUNKED))
    assert servable(chunked).ok
    assert not handoff(chunked)
    starting = tuple(replace(one, phase=Phase.LOADING) for one in fleet.instances)
    assert not servable(replace(chunked, instances=starting)).ok
    assert not servable(Fleet(fleet.desired)).ok


def test_a_fleet_without_an_instance_does_not_say_that_it_serves(world: World) -> None:
    fleet = world.state.fleet
    gone = replace(fleet, instances=(), pairs=fleet.pairs[:1])
    (check,) = handoff(gone)
    assert check.detail == "0 of 1 pair hands over"
    assert "served" not in check.fix
    one = replace(fleet, instances=fleet.instances[:1])
    assert "served whole" in handoff(one)[0].fix


@pytest.mark.parametrize(
    ("query", "json"),
    [("?verbose", True), ("?verbose=true", True), ("?verbose=false", False), ("", False)],
)
async def test_verbose_needs_no_value(
    http: httpx2.AsyncClient, router: socket.socket, query: str, json: bool
) -> None:
    with router:
        answer = await http.get("/readyz" + query)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json") is json


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_probes_may_ask_by_head(
    http: httpx2.AsyncClient, router: socket.socket, path: str
) -> None:
    with router:
        assert (await http.head(path)).status_code == 200


async def test_a_load_balancer_needs_no_token_and_learns_only_the_status(
    world: World, router: socket.socket
) -> None:
    transport = httpx2.ASGITransport(create_api(world.plane, token="s3cret"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gpu-box") as http:
        with router:
            assert (await http.get("/readyz")).text == "ok\n"
            assert (await http.get("/readyz?verbose")).status_code == 401
            asked = {"accept": "application/json"}
            assert (await http.get("/readyz", headers=asked)).status_code == 401
            known = {"authorization": "Bearer s3cret"}
            assert (await http.get("/readyz?verbose", headers=known)).json()["ready"]
        world.state.set_observed([], [], [], 0)
        sick = await http.get("/readyz")
        assert (sick.status_code, sick.text) == (503, "not ready\n")


async def test_the_numbers_say_that_they_are_simulated(http: httpx2.AsyncClient) -> None:
    text = (await http.get("/metrics")).text
    assert "pdctl_simulated 1.0" in text
    assert 'simulated="true"' in text


async def test_the_description_says_how_to_get_the_streams(http: httpx2.AsyncClient) -> None:
    text = (await http.get("/docs")).text
    assert "curl -N -H 'Accept: text/event-stream' http://127.0.0.1/api/v1/events" in text
    assert "Console: http://127.0.0.1/" in text


async def test_both_formats_are_what_their_parsers_expect(http: httpx2.AsyncClient) -> None:
    text = await http.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in parse(text.text)}
    wanted = {
        "pdctl_build_info", "pdctl_mode", "pdctl_instances", "pdctl_pairs", "pdctl_requests",
        "pdctl_router_inflight", "pdctl_router_queued", "pdctl_time_to_first_token_seconds",
        "pdctl_inter_token_latency_seconds", "pdctl_e2e_request_latency_seconds",
    }  # fmt: skip
    assert wanted <= names
    asked = {"accept": "application/openmetrics-text; version=1.0.0"}
    opened = await http.get("/metrics", headers=asked)
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert opened.text.endswith("# EOF\n")
    assert list(parse_openmetrics(opened.text))  # type: ignore[no-untyped-call]


async def test_counts_agree_with_what_happened(http: httpx2.AsyncClient, world: World) -> None:
    text = (await http.get("/metrics")).text
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }
    finished = sum(v for (name, *_), v in samples.items() if name == "pdctl_requests_total")
    assert finished == len(world.store.records)
    handed = [
        one
        for one in world.store.records
        if one.path == "pd" and one.ttft_ms is not None and one.outcome != "rejected"
    ]
    assert samples["pdctl_time_to_first_token_seconds_count", ("path", "pd")] == len(handed)
    assert samples["pdctl_time_to_first_token_seconds_sum", ("path", "pd")] == pytest.approx(
        sum((one.ttft_ms or 0) for one in handed) / 1000, rel=0.01
    )
    assert samples["pdctl_instances", ("phase", "ready"), ("pool", "prefill")] == 2
    assert samples["pdctl_mode", ("mode", "pd")] == 1


def test_folding_into_coarse_edges_loses_nothing_and_stays_within_a_percent() -> None:
    rng, histogram, values = Random(4), Histogram(), []
    for _ in range(2000):
        values.append(rng.lognormvariate(3, 2))
        histogram.add(values[-1])
    edges = (0.001, 0.01, 0.1, 1.0)
    rows = cumulated(histogram, edges)
    assert [name for name, _ in rows] == ["0.001", "0.01", "0.1", "1.0", "+Inf"]
    assert rows[-1][1] == 2000
    for (_, count), edge in zip(rows, edges, strict=False):
        low = sum(value / 1000 <= edge * 0.99 for value in values)
        high = sum(value / 1000 <= edge * 1.01 for value in values)
        assert low <= count <= high
    assert total_seconds(histogram) == pytest.approx(sum(values) / 1000, rel=0.01)
