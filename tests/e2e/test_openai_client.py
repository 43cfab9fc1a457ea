"""The official client, unchanged, against the front door."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.live import LiveFleet
from tests.e2e.test_messages import record_of


@pytest.fixture
def client(fleet: LiveFleet) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{fleet.router}/v1", api_key="any", max_retries=0, timeout=120
    ) as made:
        yield made


def test_models(client: openai.OpenAI) -> None:
    assert [one.id for one in client.models.list()] == ["tiny"]


def test_completion_and_usage(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt="Once", max_tokens=5, temperature=0)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_chat_and_streamed_chat_agree(client: openai.OpenAI) -> None:
    ask: list[ChatCompletionMessageParam] = [
        {"role": "user", "content": "Why would prefill and decode live apart? " * 20}
    ]
    whole = client.chat.completions.create(
        model="tiny",
        messages=ask,
        max_tokens=12,
        temperature=0,
    )
    stream = client.chat.completions.create(
        model="tiny", messages=ask, max_tokens=12, temperature=0,
        stream=True, stream_options={"include_usage": True},
    )  # fmt: skip
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )


def test_responses(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="tiny", input="Say something", max_output_tokens=6)
    assert answer.usage is not None
    assert answer.usage.output_tokens == 6


def test_n_of_two_is_served_whole_and_says_why(fleet: LiveFleet, client: openai.OpenAI) -> None:
    answer = client.completions.with_raw_response.create(
        model="tiny", prompt="Twice", max_tokens=3, n=2
    )
    assert len(answer.parse().choices) == 2
    record = record_of(fleet, answer.headers["x-request-id"])
    assert record["path"] == "aggregated"
    assert record["path_reason"]


def test_errors_have_their_class(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.completions.create(model="nobody", prompt="x")
    assert "nobody" in str(unknown.value)
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model="tiny", prompt="x", max_tokens=-1)
    assert "max_tokens" in str(bad.value)
    assert "127.0.0.1" not in str(bad.value)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages=[], temperature=99)
