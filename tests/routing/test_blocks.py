"""What is known of an instance's cache is what its events say, and never more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.domain.kv_events import (
    AllCleared,
    BlockEvent,
    BlocksRemoved,
    BlocksStored,
    EventBatch,
    salted,
)
from pdctl.routing.blocks import COMING_S, Holding, chain_of_ids

SIZE = 4
IDS = tuple(range(100, 120))


def stored(ids: tuple[int, ...] = IDS, parent: object = None, start: int = 0) -> BlocksStored:
    """Blocks of `ids`, named by the engine after the tokens up to their ends."""
    ends = range(SIZE, len(ids) + 1, SIZE)
    return BlocksStored(tuple(hash(ids[:end]) for end in ends), None, ids, SIZE)


def batch(seq: int, *events: BlockEvent, at: float | None = None) -> EventBatch:
    return EventBatch(seq, float(seq) if at is None else at, events)


def holding(*events: BlockEvent) -> Holding:
    one = Holding()
    assert one.take(batch(0, *events))
    return one


def held(one: Holding, ids: tuple[int, ...] = IDS, salt: str = "") -> int:
    return one.cached(chain_of_ids(ids, SIZE, salt), 0.0)[0]


def test_the_last_token_is_computed_anew() -> None:
    one = holding(stored())
    assert held(one) == 16
    assert held(one, (*IDS, 7)) == 20
    assert held(one, IDS[:9]) == 8
    assert held(one, (1, *IDS)) == 0
    assert one.last_event == 0.0


def test_blocks_continue_what_was_told_before_and_nothing_else() -> None:
    first = stored(IDS[:8])
    more = replace(
        stored(IDS), hashes=stored(IDS).hashes[2:], parent=first.hashes[-1], tokens=IDS[8:]
    )
    assert held(holding(first, more), (*IDS, 7)) == 20
    assert held(holding(more), (*IDS, 7)) == 0


def test_removed_blocks_end_what_is_held() -> None:
    names = stored().hashes
    assert held(holding(stored(), BlocksRemoved(names[2:3])), (*IDS, 7)) == 8
    assert held(holding(stored(), BlocksRemoved((1, 2, 3))), (*IDS, 7)) == 20
    assert held(holding(stored(), AllCleared())) == 0
    again = holding(stored(), BlocksRemoved(names[2:3]), stored())
    assert held(again, (*IDS, 7)) == 20


def test_a_salt_is_part_of_the_first_block() -> None:
    keys = (salted("s"), *[""] * 4)
    one = holding(replace(stored(), keys=keys))
    assert (held(one), held(one, salt="s"), held(one, salt="t")) == (0, 16, 0)
    assert held(holding(stored()), salt="s") == 0


def test_messages_are_taken_in_order_once() -> None:
    one = holding(stored())
    assert not one.take(batch(2, AllCleared()))
    assert held(one) == 16
    assert one.take(batch(0, AllCleared()))
    assert held(one) == 16
    assert one.next_seq == 1


def test_what_a_gap_hides_is_forgotten() -> None:
    one = holding(stored())
    other = tuple(range(50))
    one.refill([batch(3, stored(other[:8])), batch(4)])
    assert (held(one), held(one, other), one.forgotten, one.next_seq) == (0, 8, 1, 5)


def test_a_publisher_that_counts_anew_is_a_new_one() -> None:
    one = holding(stored())
    assert one.take(batch(1))
    assert one.take(batch(0, at=99.0))
    assert (held(one), one.next_seq) == (0, 1)
    assert not one.take(batch(5, at=100.0))


def test_what_was_sent_is_coming_until_it_is_told_or_too_late() -> None:
    one, chain = holding(stored(IDS[:8])), chain_of_ids((*IDS, 7), SIZE)
    one.sent(chain, 100.0)
    assert one.cached(chain, 100.0) == (8, 12)
    assert one.cached(chain, 100.0 + COMING_S) == (8, 0)
    assert one.take(batch(1, stored()))
    assert one.cached(chain, 101.0) == (20, 0)
    assert one.take(batch(2, BlocksRemoved(stored().hashes[2:])))
    assert one.cached(chain, 102.0) == (8, 0)


PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=16).map(tuple)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("srrc"), PROMPTS), max_size=12), PROMPTS,
    st.sets(st.integers(0, 11)),
)  # fmt: skip
def test_never_more_is_claimed_than_a_model_of_the_cache_holds(
    history: list[tuple[str, tuple[int, ...]]], asked: tuple[int, ...], lost: set[int]
) -> None:
    """Whatever is stored, removed, cleared or lost on the way."""
    cache: set[tuple[int, ...]] = set()
    one = Holding()
    for seq, (what, ids) in enumerate(history):
        full = ids[: len(ids) // SIZE * SIZE]
        prefixes = [full[:end] for end in range(SIZE, len(full) + 1, SIZE)]
        event: BlockEvent
        if what == "s":
            cache |= set(prefixes)
            event = stored(full)
        elif what == "r":
            cache -= set(prefixes[-1:])
            event = BlocksRemoved(tuple(hash(one) for one in prefixes[-1:]))
        else:
            cache.clear()
            event = AllCleared()
        if seq not in lost:
            one.refill([batch(seq, event)])
    whole = one.next_seq == len(history)
    real = 0
    while asked[: real + SIZE] in cache and real + SIZE < len(asked):
        real += SIZE
    if whole:
        assert held(one, asked) <= real
    if not lost:
        assert held(one, asked) == real
