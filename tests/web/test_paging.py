"""Pages of a list: nothing is shown twice or left out, whatever comes in meanwhile."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.contract.resources import PairView
from pdctl.web import paging
from pdctl.web.overview import WINDOW, grid, window


@given(st.lists(st.integers(), unique=True, max_size=40), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_pages_cover_the_list_once(items: list[int], size: int, newer: int) -> None:
    seen: list[int] = []
    before: str | None = None
    while True:
        page = paging.newest_first(items, before, size, str)
        seen += page.items
        if not page.next:
            break
        before = page.next
        items = [-(10**6) - len(seen) - number for number in range(newer)] + items
    assert seen == [one for one in items if one in set(seen)] or newer
    assert len(seen) == len(set(seen))


def test_an_unknown_place_is_the_first_page() -> None:
    page = paging.newest_first(["c", "b", "a"], "gone", 2, str)
    assert (page.items, page.before, page.next) == (("c", "b"), "", "b")
    assert paging.whole_pages(["b", "a"], "", 2, str).next == "a"
    assert paging.whole_pages(["a"], "", 2, str).next == ""
    assert [paging.number(text) for text in ("7", "-1", "x", "", None, "9" * 30)] == [
        7, None, None, None, None, None,
    ]  # fmt: skip


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 99), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_part_of_the_matrix_is_on_it(prefills: int, decodes: int, row: int, column: int) -> None:
    names = [(f"p{a}", f"d{b}") for a in range(prefills) for b in range(decodes)]
    whole = grid([PairView(prefill=p, decode=d, state="ok") for p, d in names])
    part = window(whole, row, column)
    assert 0 < len(part.prefills) <= WINDOW
    assert 0 < len(part.decodes) <= WINDOW
    assert part.row in part.rows
    assert part.column in part.columns
    if row < prefills and column < decodes:
        assert f"p{row}" in part.prefills
        assert f"d{column}" in part.decodes
