"""Keys files: read whole, or refused in one sentence."""

from __future__ import annotations

import pytest

from pdctl.domain.keys import KeysError, digest, parse

HASH = digest("secret")


def test_a_key_is_found_by_its_digest_alone() -> None:
    text = (
        f'[alice]\nsha256 = "{HASH}"\nconcurrent = 2\nmodels = ["m"]\n[bob]\nsha256 = "{"0" * 64}"'
    )
    keys = parse(text)
    assert keys[digest("secret")].name == "alice"
    assert keys[HASH].concurrent == 2
    assert keys[HASH].requests_per_minute is None
    assert keys[HASH].models == ("m",)
    assert keys["0" * 64].name == "bob"
    assert "secret" not in repr(keys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[alice", "not valid TOML"),
        ('alice = "x"', "outside a table"),
        ('["a b"]\nsha256 = ""', "cannot be a key's name"),
        ("[alice]", "needs a sha256"),
        (f'[alice]\nsha256 = "{HASH.upper()}"', "needs a sha256"),
        (f'[a]\nsha256 = "{HASH}"\n[b]\nsha256 = "{HASH}"', "are the same key"),
        (f'[a]\nsha256 = "{HASH}"\nconcurent = 1', "unknown entry 'concurent'"),
        (f'[a]\nsha256 = "{HASH}"\nconcurrent = 0', "whole number from 1"),
        (f'[a]\nsha256 = "{HASH}"\nrequests_per_minute = true', "whole number from 1"),
        (f'[a]\nsha256 = "{HASH}"\nmodels = "m"', "list of names"),
    ],
)
def test_a_mistake_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(KeysError, match=said):
        parse(text)
