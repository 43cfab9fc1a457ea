"""No secret leaves in a bundle, and nothing else is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.domain.bundle import masked

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["ready", "prefill-0", "a b", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["env", "phase", "tokens"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_what_is_no_secret_comes_out_as_it_went_in(value: object) -> None:
    assert masked(value) == value


@pytest.mark.parametrize(
    "value",
    [
        [["HF_TOKEN", "very-secret"]],
        {"env": [["HF_TOKEN", "very-secret"], ["A", "b"]]},
        {"api_key": "very-secret"},
        {"deep": [{"password": "very-secret"}]},
        "ERROR Authorization: Bearer very-secret",
        ["postgresql://user:very-secret@host/db"],
        ["HF_TOKEN", "very-secret"],
    ],
)
def test_secrets_are_masked_by_name_and_by_look(value: object) -> None:
    assert "very-secret" not in repr(masked(value))
    assert "***" in repr(masked(value))


@pytest.mark.parametrize("reference", ["env:HF_TOKEN", "file:/run/secrets/hf"])
def test_a_reference_is_no_secret(reference: str) -> None:
    assert masked([["HF_TOKEN", reference]]) == [["HF_TOKEN", reference]]
