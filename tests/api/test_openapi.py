"""The description of the API: checked in, stable in its names, complete for readers."""

from __future__ import annotations

from pathlib import Path

import httpx2

from pdctl.api.openapi import describe, text

COPY = Path(__file__).parents[2] / "docs" / "openapi.json"
SAFE = {"get", "head"}


def operations() -> list[tuple[str, str, dict[str, object]]]:
    return [
        (method, path, operation)
        for path, methods in describe()["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_copy_is_current() -> None:
    assert COPY.read_text(encoding="utf-8") == text(), (
        "run: python -m pdctl.api.openapi > docs/openapi.json"
    )


def test_every_operation_has_a_name_a_tag_and_a_sentence() -> None:
    names = [operation["operationId"] for *_, operation in operations()]
    assert len(set(names)) == len(names)
    tags = {tag["name"] for tag in describe()["tags"]}
    for _, path, operation in operations():
        assert operation["description"], path
        assert set(operation["tags"]) <= tags, path  # type: ignore[call-overload]
        assert "default" in operation["responses"], path  # type: ignore[operator]


def test_the_verbs_are_these() -> None:
    verbs = {
        operation["operationId"] for method, _, operation in operations() if method not in SAFE
    }
    assert verbs == {
        "putMode", "restartInstance", "clearInstance", "makePlan", "applyPlan", "cancelOperation",
        "planUndo", "putPool", "putFleet", "killOrphan", "adoptOrphan",
        "patchRouter", "detach",
        "putMark", "dropMark", "checkGolden", "acknowledgeSignal", "silence", "unsilence",
        "signIn", "signOut",
    }  # fmt: skip


def test_problems_are_described_as_problems() -> None:
    for _, path, operation in operations():
        content = operation["responses"]["default"]["content"]  # type: ignore[index]
        assert "application/problem+json" in content, path


async def test_docs_are_text_with_every_path(http: httpx2.AsyncClient) -> None:
    docs = await http.get("/docs")
    assert docs.headers["content-type"].startswith("text/plain")
    for method, path, _ in operations():
        assert f"{method.upper():5}{path} " in docs.text
