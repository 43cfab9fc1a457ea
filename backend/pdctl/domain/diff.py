"""What differs between two desired fleets, field by field, and the same in words.

Law: two fleets that differ in a field differ here, both ways round; secrets are masked in words.
What only names a fleet (revision, digest and path of its file) is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

from pdctl.domain import standing
from pdctl.domain.redaction import MASK, is_secret, text
from pdctl.domain.topology import FleetSpec, Orders, PortBand

Scalar = str | int | float | bool | tuple[object, ...]
NAMES_ONLY = frozenset({"revision", "source", "file_digest", "applied_digest"})
_BY_KEY = frozenset({"args", "env", "options"})
_BY_NAME = frozenset({"pools", "slos", "rules"})
NOTHING = "nothing"
ORDERS = "orders"
_UNITS = {"_s": "s", "_ms": "ms", "_bytes": "bytes"}
_KEYS = {
    "http_ports": "ports.http", "side_channel_ports": "ports.side_channel",
    "signals.webhook.url_secret": "signals.webhook.url",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs; None on the side that lacks it."""

    path: str
    """For example "pools.decode.size" or "engine.env.UCX_TLS"."""
    before: Scalar | None
    after: Scalar | None

    @property
    def words(self) -> str:
        """For example "pools.decode.size 1 -> 2", named as in a fleet file."""
        where, _, name = self.path.rpartition(".")
        if where == ORDERS:
            sides = (
                Orders(**{name: one or ()})  # type: ignore[arg-type]  # the field's own value
                for one in (self.before, self.after)
            )
            return "; ".join(standing.words(*sides))
        path, unit = _spoken(self.path)
        before, after = (
            _measured(shown(self.path, one), unit) for one in (self.before, self.after)
        )
        if before == after:  # two secrets, or 1 and "1"
            return f"{path} changed"
        return f"{path} {before} -> {after}"


def flat(fleet: FleetSpec) -> dict[str, Scalar]:
    """Every field of `fleet` by its path; pools and objectives by name, arguments by key."""
    return dict(_walk("", fleet))


def diff(before: FleetSpec, after: FleetSpec) -> tuple[FieldChange, ...]:
    """The fields in which two fleets differ; those that only the old one has come last."""
    old, new = flat(before), flat(after)
    paths = dict.fromkeys([*new, *old])
    return tuple(
        FieldChange(path, old.get(path), new.get(path))
        for path in paths
        if old.get(path) != new.get(path)
    )


def words(before: FleetSpec, after: FleetSpec) -> list[str]:
    """The difference for people: a pool that comes or goes is one sentence."""
    old, new = ({pool.name: pool for pool in fleet.pools} for fleet in (before, after))
    whole = {f"pools.{name}." for name in old.keys() ^ new.keys()}
    told_apart = (*whole, f"{ORDERS}.")
    said = [
        change.words for change in diff(before, after) if not change.path.startswith(told_apart)
    ]
    said += [
        f"pool {name} added ({pool.size} {pool.role})"
        for name, pool in new.items()
        if name not in old
    ]
    said += [f"pool {name} removed" for name in old if name not in new]
    return [*said, *standing.words(before.orders, after.orders)]


def shown(path: str, value: Scalar | None) -> str:
    """A value as it may be read by anybody who may ask."""
    if value is None:
        return NOTHING
    if is_secret(path.rpartition(".")[2]):
        return MASK
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(_item(one) for one in value) or NOTHING
    return text(str(value))


def _spoken(path: str) -> tuple[str, str]:
    """A field as a fleet file calls it, and the unit that its own name has."""
    table, _, rest = path.partition(".")
    if "." in rest and rest.split(".")[-2] in _BY_KEY:
        return path, ""  # an argument or a variable is called what it is called
    path = _KEYS.get(path, f"slo.{rest}" if table == "slos" else path)
    path = path.replace("signals.rules.", "signals.", 1)
    for ending, unit in _UNITS.items():
        if path.endswith(ending):
            return path.removesuffix(ending), unit
    return path, ""


def _measured(value: str, unit: str) -> str:
    return f"{value.removesuffix('.0')} {unit}" if unit and value != NOTHING else value


def _item(one: object) -> str:
    return "#".join(str(part) for part in one) if isinstance(one, tuple) else text(str(one))


def _walk(path: str, value: object) -> Iterator[tuple[str, Scalar]]:
    for one in fields(value):  # type: ignore[arg-type]
        name, found = one.name, getattr(value, one.name)
        where = f"{path}{name}"
        if not path and name in NAMES_ONLY:
            continue
        if name in _BY_NAME:
            for each in found:
                yield from _walk(f"{where}.{each.name}.", each)
        elif name in _BY_KEY:
            yield from ((f"{where}.{key}", each) for key, each in found)
        elif isinstance(found, PortBand):
            yield where, str(found)
        elif is_dataclass(found):
            yield from _walk(f"{where}.", found)
        elif found is not None and found != ():
            yield where, str(found) if isinstance(found, str) else found
