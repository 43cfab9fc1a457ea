"""Frozen dataclasses <-> JSON, by their own type hints.

Rows outlive code: unknown keys are ignored and missing ones take the field's default, so that a
newer or an older pdctl reads the same row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson

T = TypeVar("T")


def dumps(value: Any) -> str:
    """JSON text of data or of a dataclass; never fails on what clients may have sent."""
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # a lone surrogate, most likely
        return json.dumps(value, default=_plain)


def plain(value: str) -> str:
    """Text that every database takes: no NUL, no lone surrogate."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def decode(cls: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass that `dumps` wrote; ValueError when a needed field is missing."""
    hints = _hints(cast("Any", cls))
    known: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name in data:
            known[field.name] = _value(hints[field.name], data[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{cls.__name__} without {field.name}")
    return cls(**known)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _value(hint: Any, raw: Any) -> Any:
    hint = getattr(hint, "__supertype__", hint)  # NewType
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _optional(hint, raw)
    if origin is tuple:
        return _tuple(get_args(hint), raw)
    if is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, raw)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(raw)
    if hint is float:
        return math.nan if raw is None else float(raw)  # JSON has no NaN
    return raw


def _optional(hint: Any, raw: Any) -> Any:
    some = [one for one in get_args(hint) if one is not type(None)]
    return raw if raw is None or len(some) != 1 else _value(some[0], raw)


def _tuple(args: tuple[Any, ...], raw: Any) -> tuple[Any, ...]:
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_value(args[0], one) for one in raw)
    return tuple(_value(hint, one) for hint, one in zip(args, raw, strict=True))
