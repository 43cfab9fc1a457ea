"""Small on purpose, kept small by a test: modules, functions, the composition root, names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("backend", "console", "migrations", "benchmarks", "crashtest")
MODULE_LINES, FUNCTION_LINES, APP_LINES = 400, 40, 200
VAGUE = {"utils.py", "helpers.py", "common.py", "manager.py", "misc.py"}


def modules() -> list[Path]:
    return sorted(path for source in SOURCES for path in (ROOT / source).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def test_there_is_something_to_measure() -> None:
    assert len(modules()) > 30


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_small_and_introduces_itself(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.count("\n")
    assert lines <= MODULE_LINES, f"{lines} lines; split it by what its parts decide"
    if path.name == "app.py":
        assert lines <= APP_LINES, f"{lines} lines; a composition root only wires"
    assert path.name not in VAGUE, "name the noun of the domain instead"
    long = [f"{name} ({size})" for name, size in functions(tree) if size > FUNCTION_LINES]
    assert not long, f"functions over {FUNCTION_LINES} lines: {', '.join(long)}"
    if tree.body:
        assert ast.get_docstring(tree), "a module opens with what it is and its law"


def test_tests_are_readable_too() -> None:
    long = [
        f"{path.relative_to(ROOT)} ({lines})"
        for path in (ROOT / "tests").rglob("*.py")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > MODULE_LINES
    ]
    assert not long, long
