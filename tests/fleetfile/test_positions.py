"""Every key and value that tomllib finds has its place, whatever way it is written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.fleetfile.mistakes import Key, dotted
from pdctl.fleetfile.positions import find

WRITTEN = """
top = 1 # c = 2
"quo.ted" . 'bare ' = [ 1, { x = 2, y.z = 3 }, "s,]#" ] # [not.a.table]
multi = \"\"\"
foo = 1
[nothing]
\\\"\"\" \"\"\"\"\"
literal = '''
a = 'b' '''''
[pools.prefill]
devices = [
  "0", # ] first
  "1",
]
when = 1979-05-27 07:32:00
[[list.of]]
k = 1
[[list.of]]
k = 2
[list.of.inner]
w = true
"""


def leaves(value: Any, path: Key = ()) -> Iterator[tuple[Key, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))


def test_every_way_to_write_a_key() -> None:
    places = find(WRITTEN)
    for path, _ in leaves(tomllib.loads(WRITTEN)):
        assert path in places.places, dotted(path)
    assert places.key(("top",)) == (2, 1)
    assert places.value(("quo.ted", "bare ", 1, "y", "z")) == (3, 43)
    assert places.key(("literal",)) == (8, 1)
    assert places.value(("pools", "prefill", "devices", 1)) == (13, 3)
    assert places.value(("list", "of", 1, "k")) == (19, 5)
    assert places.key(("list", "of", 1, "inner")) == (20, 2)


def test_what_is_absent_is_at_its_parent_or_at_the_top() -> None:
    places = find(WRITTEN)
    assert places.key(("pools", "prefill", "size")) == places.key(("pools", "prefill"))
    assert places.key(("nothing", "here")) == (1, 1)


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**60), 2**60),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=12),
        st.datetimes(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4))
@settings(max_examples=60, deadline=None)
def test_places_of_any_document(document: dict[str, Any]) -> None:
    text = tomlkit.dumps(document)
    parsed = tomllib.loads(text)
    places = find(text)
    assert not places.twice
    for path, _ in leaves(parsed):
        assert path in places.places, (dotted(path), text)
        line, column = places.value(path)
        assert 1 <= line <= text.count("\n") + 1
        assert column >= 1
