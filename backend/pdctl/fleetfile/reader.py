"""Walks the tables of a fleet file and collects every mistake, so that one run names them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdctl.fleetfile.mistakes import ERROR, WARNING, Key, Mistake, dotted, nearest
from pdctl.fleetfile.positions import Positions
from pdctl.fleetfile.values import Reader, Wrong, shown

Table = Mapping[str, Any]
SYNONYMS = {
    "replicas": "size", "count": "size", "instances": "size", "gpus": "devices",
    "cpus": "cores", "model_path": "model", "environment": "env", "arguments": "args",
    "interpreter": "python", "type": "kind", "listen": "host",
}  # fmt: skip
"""What other tools call our keys: too far from ours for a comparison of letters."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a section: how its value is read, and what it is when absent."""

    read: Reader[Any]
    default: Any = None
    required: bool = False


@dataclass(slots=True)
class Findings:
    """The mistakes found so far, each put where the operator will look."""

    places: Positions
    mistakes: list[Mistake] = field(default_factory=list)

    def error(self, key: Key, message: str, hint: str = "", *, named: bool = False) -> None:
        """A mistake in the value of `key` (in its name, when `named`)."""
        self._add(key, message, hint, ERROR, named)

    def warn(self, key: Key, message: str, hint: str = "", *, named: bool = True) -> None:
        """Worth knowing, and no reason to refuse the file."""
        self._add(key, message, hint, WARNING, named)

    def _add(self, key: Key, message: str, hint: str, severity: str, named: bool) -> None:
        line, column = self.places.key(key) if named else self.places.value(key)
        self.mistakes.append(Mistake(line, column, dotted(key), message, hint, severity))

    def said(self, key: Key) -> bool:
        """True when something was noted about `key`: what follows from it is then left unsaid."""
        name = dotted(key)
        return any(one.key == name for one in self.mistakes)

    @property
    def failed(self) -> bool:
        """True when the file must be refused."""
        return any(one.severity == ERROR for one in self.mistakes)


def section(
    found: Findings,
    path: Key,
    value: Any,
    fields: Mapping[str, Field],
    homes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The values of one table by `fields`; `homes` says where a misplaced key belongs."""
    given = table(found, path, value)
    unknown = [name for name in given if name not in fields]
    meant = {_unknown(found, (*path, name), fields, homes or {}) for name in unknown}
    result: dict[str, Any] = {}
    for name, spec in fields.items():
        result[name] = spec.default
        if name in given:
            result[name] = value_of(found, (*path, name), given[name], spec.read, spec.default)
        elif spec.required and name not in meant and not found.said(path):
            where = f"[{dotted(path)}]" if path else "The file"
            found.error(path, f"{where} has no `{name}`.", f"Add {name} = ... to it.", named=True)
    return result


def value_of(found: Findings, key: Key, value: Any, read: Reader[Any], default: Any) -> Any:
    """One value by its reader, or `default` with a mistake noted."""
    try:
        return read(value)
    except Wrong as wrong:
        found.error(key, f"{dotted(key)} {wrong.message}", wrong.hint)
        return default


def table(found: Findings, path: Key, value: Any) -> Table:
    """`value` when it is a table, else an empty one with a mistake noted."""
    if isinstance(value, Mapping):
        return value
    if value is not None:
        message = f"{dotted(path)} must be a table, not {shown(value)}."
        example = {"pools": "pools.prefill", "slo": "slo.interactive"}.get(dotted(path))
        found.error(path, message, f"Write [{example or dotted(path)}] on a line of its own.")
    return {}


def _unknown(
    found: Findings, key: Key, fields: Mapping[str, Field], homes: Mapping[str, str]
) -> str | None:
    """Notes a key that does not exist; answers which one was probably meant."""
    name = str(key[-1])
    close = nearest(name, tuple(fields))
    if SYNONYMS.get(name) in fields:
        close = SYNONYMS[name]
    if close is None and name in homes:
        close_text = f"`{name}` belongs in [{homes[name]}]."
    elif close is not None:
        close_text = f"Did you mean `{close}`?"
    else:
        close_text = f"Known here: {', '.join(fields)}."
    found.error(key, f"There is no key `{name}` here.", close_text, named=True)
    return close
