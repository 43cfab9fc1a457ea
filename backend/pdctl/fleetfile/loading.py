"""The way in: text or file to FleetSpec, with every mistake in the order of its lines."""

from __future__ import annotations

from pathlib import Path

from pdctl.domain.topology import FleetSpec
from pdctl.fleetfile import publishing, rules, schema, source, vllm_rules
from pdctl.fleetfile.mistakes import ERROR, FleetFileError, Mistake
from pdctl.fleetfile.reader import Findings


def check(text: str, path: Path | str) -> tuple[FleetSpec | None, tuple[Mistake, ...]]:
    """The fleet that `text` describes (None when it has errors), and every mistake in it.

    `path` is where the text is, or would be: relative paths in it start there.
    """
    values, places, mistakes = source.parse(text)
    found = Findings(places, mistakes)
    if values is None:
        return None, tuple(mistakes)
    spec = schema.build(values, found, Path(path))
    rules.apply(spec, values, found)
    vllm_rules.apply(spec, values, found)
    publishing.apply(spec, values, found)
    unique = dict.fromkeys(found.mistakes)
    ordered = tuple(sorted(unique, key=lambda one: (one.line, one.column, one.severity)))
    return (None if found.failed else spec), ordered


def inspect(path: Path) -> tuple[FleetSpec | None, tuple[Mistake, ...]]:
    """`check` for a file; a file that cannot be read is a mistake as well."""
    text, unreadable = source.read(path)
    return (None, (unreadable,)) if unreadable else check(text, path)


def load(path: Path) -> FleetSpec:
    """The fleet in a file; FleetFileError with every mistake when it has errors."""
    spec, mistakes = inspect(path)
    if spec is None:
        raise FleetFileError(str(path), tuple(one for one in mistakes if one.severity == ERROR))
    return spec
