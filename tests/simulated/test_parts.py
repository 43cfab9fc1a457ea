"""The parts that need no server: tokenizer, text, blocks, exposition, draws, arguments, faults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pdctl.simulated import buckets
from pdctl.simulated.arguments import parse
from pdctl.simulated.blocks import BlockPool, block_hashes
from pdctl.simulated.exposition import Registry
from pdctl.simulated.text import TokenSource, prompt_digest
from pdctl.simulated.vocabulary import VOCAB_SIZE, Detokenizer, decode, encode


@given(st.text(max_size=200))
@settings(max_examples=100)
def test_tokens_give_back_their_text(text: str) -> None:
    clean = text.encode("utf-8", errors="replace").decode()
    tokens = encode(clean)
    assert decode(tokens) == clean
    assert all(0 <= token < VOCAB_SIZE for token in tokens)


def test_a_character_of_many_bytes_is_held_back_until_it_is_whole() -> None:
    detokenizer = Detokenizer()
    pieces = [detokenizer.feed((token,)) for token in encode("a🌊b")]
    assert pieces == ["a", "", "", "", "🌊", "b"]


def test_texts_depend_on_model_prompt_and_sample_only() -> None:
    digest = prompt_digest("m", [1, 2, 3])
    text = [TokenSource(digest)[index] for index in range(500)]
    backwards = TokenSource(digest)
    assert [backwards[index] for index in reversed(range(500))] == text[::-1]
    others = [
        TokenSource(prompt_digest("n", [1, 2, 3])),
        TokenSource(prompt_digest("m", [1, 2, 4])),
        TokenSource(digest, sample=1),
    ]
    assert all([other[index] for index in range(500)] != text for other in others)
    split = sum(token < 256 and token > 127 for token in text)
    assert 10 < split < 200


def test_a_corrupt_text_is_another_one_and_looks_it() -> None:
    source = TokenSource(prompt_digest("m", [1]))
    right = decode(source[index] for index in range(50))
    source.corrupt()
    wrong = decode(source[index] for index in range(50))
    assert wrong != right
    assert "▒" in wrong
    assert "▒" not in right


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), max_size=30))
@settings(max_examples=60)
def test_blocks_are_neither_lost_nor_given_twice(prompts: list[list[int]]) -> None:
    pool = BlockPool(12)
    held: list[list[int]] = []
    for prompt in prompts:
        hashes = block_hashes(prompt, 4)
        reused = pool.reuse(hashes)
        fresh = pool.take(-(-len(prompt) // 4) - len(reused))
        if fresh is None:
            pool.release(reused)
            if held:
                pool.release(held.pop(0))
            continue
        pool.remember(reused + fresh, hashes)
        held.append(reused + fresh)
        users = {block for blocks in held for block in blocks}
        assert pool.num_free == 12 - len(users)
        assert not set(fresh) & {block for blocks in held[:-1] for block in blocks}
    for blocks in held:
        pool.release(blocks)
    assert pool.num_free == 12


def test_a_prompt_seen_before_is_found_up_to_its_last_token() -> None:
    pool = BlockPool(8)
    prompt = list(range(8))
    hashes = block_hashes(prompt, 4)
    assert len(hashes) == 1
    blocks = pool.take(2)
    assert blocks is not None
    pool.remember(blocks, hashes)
    pool.release(blocks)
    assert pool.reuse(hashes) == blocks[:1]
    assert pool.reuse(block_hashes([9, *prompt], 4)) == []


def test_the_page_is_what_prometheus_client_writes() -> None:
    labels = {"model_name": 'a"b\\c', "engine": "0"}
    ours = Registry(1234567.25)
    theirs = CollectorRegistry()
    counters = ours.counters("vllm:c", "c", [{**labels, "k": "x"}, {**labels, "k": "y"}])
    counter = Counter("vllm:c", "c", ["model_name", "engine", "k"], registry=theirs)
    for one, value in zip(counters, (3.0, 12_345_678.5), strict=True):
        one.add(value)
    for name, value in (("x", 3.0), ("y", 12_345_678.5)):
        counter.labels(labels["model_name"], "0", name).inc(value)
    ours.gauges("vllm:g", "g", [(labels, lambda: 0.25)])
    Gauge("vllm:g", "g", ["model_name", "engine"], registry=theirs).labels(**labels).set(0.25)
    mine = ours.histogram("vllm:h", "h", labels, buckets.NIXL_BYTES)
    histogram = Histogram(
        "vllm:h", "h", ["model_name", "engine"], buckets=buckets.NIXL_BYTES, registry=theirs
    )
    for value in (1.0, 2048.0, 5e6, 1e12):
        mine.observe(value)
        histogram.labels(**labels).observe(value)

    def shown(page: str) -> list[str]:
        return [line for line in page.splitlines() if "_created{" not in line]

    assert shown(ours.render()) == shown(generate_latest(theirs).decode())
    assert ours.render().count("1.23456725e+06") == 3


def test_every_setting_has_a_flag() -> None:
    line = (
        "--port 1 --side-channel-port 2 --role decode --model-name m --engine-id e --seed 3 "
        "--prefill-tokens-per-s 10 --no-enable-prefix-caching --max-num-queued-reqs 4 "
        "--kv-load-failure-policy recompute --startup-delay 0.5 --shutdown-timeout 6 "
        '--with-engine-core --faults {"slow":2}'
    )
    options = parse(line.split())
    assert (options.port, options.side_channel_port) == (1, 2)
    assert options.config.timing.prefill_tokens_per_s == 10.0
    assert (options.config.role, options.config.engine_id, options.config.seed) == (
        "decode",
        "e",
        3,
    )
    assert options.config.max_num_queued_reqs == 4
    assert not options.config.enable_prefix_caching
    assert options.faults.slow == 2
    assert options.with_engine_core


@pytest.mark.parametrize("argv", ["--nonsense 1", "--role boss", "--faults {", "--num-blocks 2"])
def test_a_bad_command_line_ends_with_code_2(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(argv.split())
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err
