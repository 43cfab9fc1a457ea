"""Two answers are equal, or the first place where they are not is named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.golden import Answer, Golden, compared

TOKENS = st.lists(st.integers(0, 9), min_size=1, max_size=12).map(tuple)


def check(whole: Answer, handed_over: Answer) -> Golden:
    return compared(whole, handed_over, at=1.0, prefill="p", decode="d")


@given(TOKENS, TOKENS)
def test_the_first_token_that_differs_is_named(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    found = check(Answer("a", one), Answer("b", two))
    assert found.equal == (one == two)
    if found.differs_at is not None:
        at = found.differs_at
        assert one[:at] == two[:at]
        assert one[at : at + 1] != two[at : at + 1]
        assert str(at + 1) in found.why
    else:
        assert found.tokens == len(one)


def test_without_token_ids_the_text_is_compared() -> None:
    assert check(Answer("same"), Answer("same", (1, 2))).equal
    found = check(Answer("the cat"), Answer("the dog"))
    assert (found.differs_at, found.whole, found.handed_over) == (4, "cat", "dog")
    assert found.why == "character 5 of the answer differs"
