"""JSON bodies: what is read, what is refused, and that nothing is lost on the way out."""

from __future__ import annotations

import gc
import json

import pytest

from pdctl.gateway import bodies
from pdctl.gateway.bodies import RefusedError


@pytest.mark.parametrize(
    "number",
    [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30, 10**300],
)
def test_integers_of_any_size_leave_as_they_came(number: int) -> None:
    raw = b'{"seed":%d,"text":"\xc3\xa4","f":0.1}' % number
    assert bodies.read(raw)["seed"] == number
    assert bodies.write(bodies.read(raw)) == raw


def test_a_long_prompt_may_have_a_seed_of_63_bits() -> None:
    raw = b'{"seed":%d,"prompt":[' % (2**63 - 1) + b"1," * bodies.MOST_ITEMS_EXACT + b"1]}"
    assert bodies.read(raw)["seed"] == 2**63 - 1


def test_digits_in_a_string_are_text() -> None:
    raw = b'{"text":"' + b"1" * 5000 + b'"}'
    assert bodies.write(bodies.read(raw)) == raw


@pytest.mark.parametrize("depth", [bodies.DEEPEST + 1, 500, 1020])
def test_what_could_not_be_written_again_is_refused(depth: int) -> None:
    with pytest.raises(RefusedError, match="nested deeper") as caught:
        bodies.read(b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}")
    assert caught.value.mistake.status == 400


def test_the_deepest_body_leaves_again() -> None:
    levels = bodies.DEEPEST - 1
    raw = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    assert bodies.write(bodies.read(raw)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b",".join([b"{}"] * bodies.MOST_CONTAINERS) + b"]",
        b"[" + b"1," * bodies.MOST_ITEMS + b"1,1]",
        b"[" * (bodies.MOST_CONTAINERS + 1),
        b"[" + b"1," * bodies.MOST_ITEMS_EXACT + b"12345678901234567890]",
    ],
    ids=["objects", "items", "open", "exact"],
)
def test_what_would_block_the_loop_is_not_read(raw: bytes) -> None:
    with pytest.raises(RefusedError, match=r"no more than|may hold no number") as caught:
        bodies.read(raw)
    assert caught.value.mistake.status == 413


@pytest.mark.parametrize("end", [b"]", b""])
def test_the_garbage_collector_works_again_after_a_large_body(end: bytes) -> None:
    raw = b"[" + b"1," * bodies.QUIET_BYTES + b"1" + end
    try:
        assert len(bodies.read(raw)) == bodies.QUIET_BYTES + 1
    except RefusedError:
        assert not end
    assert gc.isenabled()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
def test_whatever_pythons_json_would_read_looks_like_json(encoding: str) -> None:
    raw = ' \n{"a": 1}'.encode(encoding)
    assert json.loads(raw) == {"a": 1}
    assert bodies.looks_like_json(raw)
    assert not bodies.looks_like_json(b"--boundary\r\n")
    assert not bodies.looks_like_json(b"RIFF{[")
