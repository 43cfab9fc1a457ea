"""The official client works unchanged, and errors come out as its own exceptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
import pytest_asyncio
from tests.gateway.conftest import Engines, Rogues
from tests.gateway.desk import Desk
from tests.gateway.rogue import Rogue, Seen, completion_events, hang

from pdctl.domain.handoff import Path
from pdctl.domain.topology import Mode


@pytest_asyncio.fixture
async def client(desk: Desk) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{desk.plane.url}/v1", api_key="secret", max_retries=0, timeout=20.0
    ) as one:
        yield one


@pytest_asyncio.fixture
async def fleet(desk: Desk, engines: Engines) -> Desk:
    await engines("p0")
    await engines("d0")
    await desk.push()
    return desk


MESSAGES: Any = [{"role": "user", "content": "Say something about rivers."}]


async def test_completions(fleet: Desk, client: openai.AsyncOpenAI) -> None:
    whole = await client.completions.create(model="tiny", prompt="a river", max_tokens=8)
    stream = await client.completions.create(
        model="tiny", prompt="a river", max_tokens=8, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    text, usage = "", None
    async for chunk in stream:
        text += chunk.choices[0].text if chunk.choices else ""
        usage = chunk.usage or usage
    assert text == whole.choices[0].text
    assert usage is not None
    assert whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens == 8
    assert (await fleet.record(2)).path is Path.PD


async def test_chat(fleet: Desk, client: openai.AsyncOpenAI) -> None:
    create: Any = client.chat.completions.create
    whole = await create(model="tiny", messages=MESSAGES, max_completion_tokens=8)
    stream = await create(
        model="tiny", messages=MESSAGES, max_completion_tokens=8, stream=True, logprobs=True,
        top_logprobs=2,
    )  # fmt: skip
    text = ""
    async for chunk in stream:
        text += chunk.choices[0].delta.content or ""
        assert chunk.choices[0].finish_reason in (None, "length")
    assert text == whole.choices[0].message.content
    assert {one.path for one in fleet.records} <= {Path.PD}


async def test_responses(fleet: Desk, client: openai.AsyncOpenAI) -> None:
    whole = await client.responses.create(model="tiny", input="a river", max_output_tokens=8)
    stream = await client.responses.create(
        model="tiny", input="a river", max_output_tokens=8, stream=True
    )
    kinds, text = [], ""
    async for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert text == whole.output_text
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.completed", "response.incomplete")
    record = await fleet.record(2)
    assert (record.path, record.completion_tokens) == (Path.PD, 8)
    assert record.ttft_ms is not None


async def test_models(fleet: Desk, client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["tiny"]
    assert (await client.models.retrieve("tiny")).id == "tiny"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt")


async def test_mistakes(fleet: Desk, client: openai.AsyncOpenAI) -> None:
    create: Any = client.completions.create
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await create(model="gpt", prompt="x")
    with pytest.raises(openai.BadRequestError, match="min_tokens") as caught:
        await create(model="tiny", prompt="x", max_tokens=1, extra_body={"min_tokens": 5})
    assert caught.value.param == "min_tokens"
    with pytest.raises(openai.BadRequestError):
        await create(model="tiny", prompt="x", temperature="hot")
    with pytest.raises(openai.BadRequestError):
        await create(model="tiny", prompt="x", temperature="hot", stream=True)


async def test_overload(desk: Desk, rogues: Rogues, client: openai.AsyncOpenAI) -> None:
    await rogues("d0")
    await desk.push(Mode.CHUNKED, max_inflight_per_instance=0, queue_limit=0)
    with pytest.raises(openai.RateLimitError) as caught:
        await client.completions.create(model="tiny", prompt="x")
    assert caught.value.response.headers["retry-after"] == "1"


async def fail(seen: Seen) -> None:
    await seen.json({"error": {"message": "boom", "code": 500}}, 500)


async def die(seen: Seen) -> None:
    seen.die()


@pytest.mark.parametrize(
    ("script", "status"), [(fail, 500), (die, 502), (hang, 504)], ids=["500", "502", "504"]
)
async def test_engine_failures(
    desk: Desk,
    rogues: Rogues,
    client: openai.AsyncOpenAI,
    script: Callable[[Seen], Any],
    status: int,
) -> None:
    engine = await rogues("d0")
    engine.script = script
    await desk.push(Mode.CHUNKED, first_byte_timeout_s=0.3)
    with pytest.raises(openai.InternalServerError) as caught:
        await client.completions.create(model="tiny", prompt="x")
    assert caught.value.status_code == status


async def test_no_instance(desk: Desk, client: openai.AsyncOpenAI) -> None:
    await desk.push()
    with pytest.raises(openai.InternalServerError) as caught:
        await client.completions.create(model="tiny", prompt="x")
    assert caught.value.status_code == 503


async def test_a_stream_that_dies_raises(
    desk: Desk, rogues: Rogues, client: openai.AsyncOpenAI
) -> None:
    engine: Rogue = await rogues("d0")

    async def cut(seen: Seen) -> None:
        await seen.events(*completion_events("Hello", done=False), end=False)
        seen.die()

    engine.script = cut
    await desk.push(Mode.CHUNKED)
    stream = await client.completions.create(model="tiny", prompt="x", stream=True)
    with pytest.raises(openai.APIError, match="closed the connection"):
        async for _ in stream:
            pass


async def test_a_router_that_is_not_there(desk: Desk, client: openai.AsyncOpenAI) -> None:
    await desk.plane.stop(0.0)
    with pytest.raises(openai.APIConnectionError):
        await client.completions.create(model="tiny", prompt="x")
