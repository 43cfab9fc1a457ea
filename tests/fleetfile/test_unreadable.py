"""Files that are no fleet files at all, and text that is nothing in particular: never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fleetfile.test_good_files import SMALL

from pdctl.fleetfile import check, inspect


def only(path: Path) -> tuple[int, int, str]:
    spec, mistakes = inspect(path)
    assert spec is None
    assert len(mistakes) == 1
    return mistakes[0].line, mistakes[0].column, str(mistakes[0])


def test_missing_file_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "real.toml").touch()
    assert only(tmp_path / "reel.toml") == (
        1, 1, "There is no such file. TOML files there: real.toml.",
    )  # fmt: skip


def test_directory(tmp_path: Path) -> None:
    assert only(tmp_path)[2] == "This is a directory, not a fleet file."


@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_empty_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.toml"
    path.write_text(text, encoding="utf-8")
    assert "The file is empty." in only(path)[2]
    folder = only(path)[2].removeprefix("The file is empty. Start from a file in ").rstrip(".")
    assert list(Path(folder).glob("*.toml"))


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes('[fleet]\nname = "é'.encode() + b'\xe9"\n')
    line, column, said = only(path)
    assert (line, column) == (2, 10)
    assert "not UTF-8: byte 0xe9" in said


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    assert "larger than 1024 KiB" in only(path)[2]


def test_too_deep() -> None:
    spec, mistakes = check("a = " + "[" * 20_000, "x.toml")
    assert spec is None
    assert len(mistakes) == 1


@given(st.text())
@example("a = " + "9" * 5000)
@example("pools.prefill.size = 0x\u0663")
@example("fleet = 1979-05-27\npools = []\nslo = [1]\n")
@settings(max_examples=200, deadline=None)
def test_any_text_is_answered(text: str) -> None:
    spec, mistakes = check(text, "x.toml")
    assert spec is not None or mistakes


SECTIONS = st.sampled_from(
    ["fleet", "engine", "connector", "pools", "pools.prefill", "router", "ports", "slo", "slo.x"]
)
KEYS = st.sampled_from(
    ["model", "size", "role", "devices", "cores", "args", "env", "port", "http", "lease", "ttft",
     "python", "launcher", "kind", "args.dtype", "args.tensor-parallel-size", "env.VLLM_PORT",
     "options.x", "max_body", "retries", "served_name", "mode"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["1", "-1", "true", "nan", "1e400", '""', '"\\u0000"', "[]", "[1, true, []]", "{}", '"²"',
     "{a = {b = [1]}}", '"9-1"', '"99999999999-1"', '"0-2"', "1979-05-27", '"file:~nobody/x"',
     '"~nosuchuser/x"', '"$"', '"env:"', "'''\n'''", '"10s"', '"vllm"', '"simulated"']
)  # fmt: skip


@given(st.lists(st.tuples(SECTIONS, KEYS, WORDS), max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_value_under_any_key_is_answered(lines: list[tuple[str, str, str]]) -> None:
    text = SMALL + "".join(f"[{part}]\n{key} = {value}\n" for part, key, value in lines)
    spec, mistakes = check(text, "x.toml")
    assert spec is not None or any(one.severity == "error" for one in mistakes)
    for one in mistakes:
        assert 1 <= one.line <= text.count("\n") + 1
        assert one.message.endswith((".", "?")), one


@given(st.lists(st.tuples(KEYS, WORDS), max_size=6))
@settings(max_examples=100, deadline=None)
def test_any_value_in_one_document_is_answered(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"pools.prefill.{key} = {value}\n" for key, value in dict(lines).items())
    check(text, "x.toml")
