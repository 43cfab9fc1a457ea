"""The probe against simulated engines, sound and sick."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp.web
import pytest

from pdctl.adapters.vllm.probe import HttpProbe
from pdctl.domain.instance import Endpoint
from pdctl.simulated import SimulatedEngine
from pdctl.simulated.config import SimConfig, Timing

FAST = {"timing": Timing.instant(), "speed": 50.0, "model_name": "tiny"}


def endpoint(engine: SimulatedEngine) -> Endpoint:
    """Where an engine is."""
    return Endpoint("127.0.0.1", engine.port, engine.side_channel_port)


@contextlib.asynccontextmanager
async def running(config: SimConfig) -> AsyncIterator[SimulatedEngine]:
    """One engine."""
    engine = SimulatedEngine(config)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[SimulatedEngine, SimulatedEngine]]:
    """A prefill and a decode engine."""
    engines = (
        SimulatedEngine(SimConfig(role="prefill", kv_lease_duration=5.0, **FAST)),  # type: ignore[arg-type]
        SimulatedEngine(SimConfig(role="decode", kv_lease_duration=5.0, **FAST)),  # type: ignore[arg-type]
    )
    for engine in engines:
        await engine.start()
    yield engines
    for engine in engines:
        await engine.stop()


@pytest.fixture
async def probe() -> AsyncIterator[HttpProbe]:
    """A probe."""
    one = HttpProbe()
    yield one
    await one.close()


Pair = tuple[SimulatedEngine, SimulatedEngine]


async def test_look_names_model_and_version(pair: Pair, probe: HttpProbe) -> None:
    health = await probe.look(endpoint(pair[0]))
    assert (health.up, health.model, health.version) == (True, "tiny", "0.32.0+simulated")


async def test_a_dead_port_is_refused(probe: HttpProbe) -> None:
    engine = SimulatedEngine(SimConfig())
    await engine.start()
    await engine.stop()
    health = await probe.look(endpoint(engine))
    assert not health.up
    assert health.why == "connection refused"
    assert await probe.scrape(endpoint(engine)) is None


async def test_warm_is_one_completion(pair: Pair, probe: HttpProbe) -> None:
    assert (await probe.warm(endpoint(pair[1]), "tiny")).up
    wrong = await probe.warm(endpoint(pair[1]), "other")
    assert not wrong.up
    assert "status 404" in wrong.why


async def test_a_handoff_moves_kv_every_time(pair: Pair, probe: HttpProbe) -> None:
    prefill, decode = endpoint(pair[0]), endpoint(pair[1])
    for round_ in range(1, 4):
        result = await probe.handoff(prefill, decode, "tiny", lease_s=30)
        assert result.ok, result.message
        assert result.handoff_ms is not None
        stats = await probe.scrape(decode)
        assert stats is not None
        assert stats.prompt_tokens_remote >= 128 * round_
        assert stats.nixl_transfers == round_


async def test_every_pair_of_ranks_has_its_first_pull(probe: HttpProbe) -> None:
    async with (
        running(SimConfig(role="prefill", data_parallel_size=2, **FAST)) as prefill,  # type: ignore[arg-type]
        running(SimConfig(role="decode", data_parallel_size=3, **FAST)) as decode,  # type: ignore[arg-type]
    ):
        result = await probe.handoff(endpoint(prefill), endpoint(decode), "tiny", lease_s=30)
        assert result.ok, result.message
        assert [rank.metrics.nixl_bytes.count for rank in decode.ranks] == [2, 2, 2]
        await decode.ranks[1].side_channel.stop()
        await prefill.ranks[1].side_channel.stop()
        result = await probe.handoff(endpoint(prefill), endpoint(decode), "tiny", lease_s=30)
        assert not result.ok
        assert result.message.startswith("decode leg of rank 0: ")


async def test_a_stalled_first_pull_is_named(pair: Pair, probe: HttpProbe) -> None:
    pair[1].faults.first_pull_stall = True
    prefill, decode = endpoint(pair[0]), endpoint(pair[1])
    result = await probe.handoff(prefill, decode, "tiny", lease_s=5.0 / 50)
    assert result.ok, result.message
    assert "stalled until prefill's lease" in result.message


async def test_missing_params_are_named(pair: Pair, probe: HttpProbe) -> None:
    pair[0].faults.missing_params = True
    result = await probe.handoff(endpoint(pair[0]), endpoint(pair[1]), "tiny", lease_s=5)
    assert not result.ok
    assert result.message.startswith("prefill leg: ")


async def test_a_failing_decode_is_named(pair: Pair, probe: HttpProbe) -> None:
    pair[1].faults.fail_decode = 500
    result = await probe.handoff(endpoint(pair[0]), endpoint(pair[1]), "tiny", lease_s=5)
    assert not result.ok
    assert result.message.startswith("decode leg: status 500")


async def test_a_silent_recompute_is_not_a_handoff(
    pair: Pair, probe: HttpProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.adapters.vllm.probe.COUNTED_S", 0.2)
    plain = SimulatedEngine(SimConfig(kv_connector=False, **FAST))  # type: ignore[arg-type]
    await plain.start()
    result = await probe.handoff(endpoint(pair[0]), endpoint(plain), "tiny", lease_s=5)
    await plain.stop()
    assert not result.ok
    assert "silent recompute" in result.message


async def test_a_hanging_engine_ends_in_a_timeout(
    pair: Pair, probe: HttpProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdctl.adapters.vllm.probe.LEASE_MARGIN_S", 0.2)
    pair[0].faults.hang = True
    result = await probe.handoff(endpoint(pair[0]), endpoint(pair[1]), "tiny", lease_s=0.1)
    assert not result.ok
    assert "no answer within 0.3 s" in result.message


async def test_something_else_on_the_port_is_no_engine(probe: HttpProbe) -> None:
    async def answer(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(text="<html>hello</html>")

    app = aiohttp.web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    where = Endpoint("127.0.0.1", port, 0)
    health = await probe.look(where)
    assert (health.up, health.why) == (False, "it answers, but not as vLLM does")
    assert not (await probe.warm(where, "m")).up
    assert await probe.scrape(where) is None
    await runner.cleanup()


async def test_probes_run_side_by_side(pair: Pair, probe: HttpProbe) -> None:
    prefill, decode = endpoint(pair[0]), endpoint(pair[1])
    results = await asyncio.gather(
        *(probe.handoff(prefill, decode, "tiny", lease_s=30) for _ in range(8))
    )
    assert all(result.ok for result in results), results
