"""`pdctl keys`: a key is shown once and is nowhere afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from pdctl.cli.terminal import ExitCode
from pdctl.domain.keys import digest, parse


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def test_a_key_is_made_listed_and_ended(run: Run, file: Path) -> None:
    made = run(
        "keys", "add", "alice", "--keys-file", file, "--concurrent", 4,
        "--requests-per-minute", 60, "--model", "tiny",
    )  # fmt: skip
    key = made.out.strip()
    assert made.code == 0
    assert key.startswith("pdctl-")
    assert "cannot be shown again" in made.err
    known = parse(file.read_text())[digest(key)]
    assert (known.name, known.concurrent, known.requests_per_minute) == ("alice", 4, 60)
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    listed = run("keys", "list", "--keys-file", file)
    assert "alice" in listed.out
    assert key not in listed.out
    ended = run("keys", "remove", "alice", "--keys-file", file, "--json")
    assert ended.document["removed"] == "alice"
    assert parse(file.read_text()) == {}


def test_what_an_operator_wrote_stays(run: Run, file: Path) -> None:
    file.write_text(f'# of the web shop\n[shop]\nsha256 = "{digest("x")}"  # rotate in May\n')
    key = run("keys", "add", "bob", "--keys-file", file, "--json").document["key"]
    assert {one.name for one in parse(file.read_text()).values()} == {"shop", "bob"}
    assert digest(key) in parse(file.read_text())
    assert "# of the web shop" in file.read_text()
    assert "# rotate in May" in file.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a b"), "cannot be called"),
        (("add", "shop"), "There is a key shop already"),
        (("remove", "nobody"), "Known: shop"),
    ],
)
def test_mistakes(run: Run, file: Path, words: tuple[str, ...], said: str) -> None:
    file.write_text(f'[shop]\nsha256 = "{digest("x")}"\n')
    ran = run("keys", *words, "--keys-file", file)
    assert ran.code == ExitCode.USAGE
    assert said in ran.err


def test_a_file_that_makes_no_sense_is_not_written(run: Run, file: Path) -> None:
    file.write_text("[shop")
    ran = run("keys", "add", "alice", "--keys-file", file)
    assert ran.code == ExitCode.USAGE
    assert "is no keys file" in ran.err
    assert file.read_text() == "[shop"
