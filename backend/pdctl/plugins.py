"""Find a plug-in by name: a module of ours with that file name, else an entry point of others.

Built-ins enjoy no other path than third parties: each kind names one attribute that a plug-in
exports, and a heavy import happens only when the plug-in is asked for.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from pdctl.domain.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of plug-ins: where ours live, what others call theirs, what a module exports."""

    package: str
    group: str
    attribute: str


POLICIES = Kind("pdctl.routing.policies", "pdctl.policies", "POLICY")
CONNECTORS = Kind("pdctl.connectors", "pdctl.connectors", "CONNECTOR")
LAUNCHERS = Kind("pdctl.adapters.launchers", "pdctl.launchers", "LAUNCHER")


def names(kind: Kind) -> tuple[str, ...]:
    """Every known name, sorted; imports none of the plug-ins."""
    package = import_module(kind.package)
    ours = {module.name for module in pkgutil.iter_modules(package.__path__)}
    theirs = {point.name for point in entry_points(group=kind.group)}
    return tuple(sorted(ours | theirs))


def load(kind: Kind, name: str) -> Any:
    """The plug-in object called `name`; OperatorError when there is none."""
    for point in entry_points(group=kind.group):
        if point.name == name:
            return point.load()
    if name.startswith("_") or name not in names(kind):
        known = ", ".join(names(kind))
        raise OperatorError(
            "unknown_plugin", f"There is no {kind.group} called {name!r}.", f"Known: {known}."
        )
    return getattr(import_module(f"{kind.package}.{name}"), kind.attribute)
