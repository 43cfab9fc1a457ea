"""Secrets in lines of text."""

from __future__ import annotations

import pytest

from pdctl.domain.redaction import text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("key sk-abcdef123456 used", "key *** used"),
        ("token hf_AbCdEf123456!", "token ***!"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("{'authorization': 'Basic Zm9v'}", "{'authorization': 'Basic ***'}"),
        ("api_key='abc', model='m'", "api_key='***', model='m'"),
        ("args: {'api_key': ['abc'], 'port': 1}", "args: {'api_key': ['***'], 'port': 1}"),
        ("HF_TOKEN=abc X=1", "HF_TOKEN=*** X=1"),
        ("export MY_SECRET: abc", "export MY_SECRET: ***"),
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
    ],
)
def test_secrets_are_masked(line: str, shown: str) -> None:
    assert text(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "max_num_batched_tokens=2048, eos_token_id=2, bos_token='<s>'",
        "Avg prompt throughput: 1.0 tokens/s",
        "http://127.0.0.1:8000/v1/models",
        "sk-x hf_1",
    ],
)
def test_ordinary_lines_are_left_alone(line: str) -> None:
    assert text(line) == line
