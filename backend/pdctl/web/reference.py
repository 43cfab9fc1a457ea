"""The admin API for people: its own description, arranged by tag, with a line to try each read.

Pure: the OpenAPI document in, frozen descriptions out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an operation takes beside its body."""

    name: str
    place: str
    """query | path | header"""
    default: str
    said: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    id: str
    said: tuple[str, ...]
    """Its description, a paragraph each."""
    parameters: tuple[Parameter, ...]
    takes_body: bool


@dataclass(frozen=True, slots=True)
class Section:
    """The operations of one tag."""

    name: str
    said: str
    operations: tuple[Operation, ...]


def sections(document: dict[str, Any]) -> list[Section]:
    """Every tag that has operations, in the document's order."""
    every = [
        (operation.get("tags", ()), _operation(method, path, operation))
        for path, methods in document.get("paths", {}).items()
        for method, operation in methods.items()
    ]
    found = [
        Section(
            tag["name"],
            tag.get("description", ""),
            tuple(one for tags, one in every if tag["name"] in tags),
        )
        for tag in document.get("tags", ())
    ]
    return [one for one in found if one.operations]


def _operation(method: str, path: str, operation: dict[str, Any]) -> Operation:
    text = operation.get("description") or operation.get("summary", "")
    return Operation(
        method=method.upper(),
        path=path,
        id=operation.get("operationId", ""),
        said=tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip()),
        parameters=tuple(_parameter(one) for one in operation.get("parameters", ())),
        takes_body="requestBody" in operation,
    )


def _parameter(one: dict[str, Any]) -> Parameter:
    default = one.get("schema", {}).get("default")
    return Parameter(
        name=one["name"],
        place=one["in"],
        default="" if default is None else str(default).lower(),
        said=one.get("description", ""),
    )
