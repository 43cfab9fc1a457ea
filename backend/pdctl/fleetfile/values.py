"""What a value in a fleet file may be: each reader gives our value, or says what is wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pdctl.domain.topology import ArgValue, PortBand
from pdctl.fleetfile.mistakes import nearest

T = TypeVar("T")
Reader = Callable[[Any], T]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_DURATIONS = re.compile(rf"(?:{_DURATION.pattern}\s*)+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]i?B|B)")
_BYTES = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
_BAND = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,39}")
_TYPES = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text",
    list: "a list", dict: "a table",
}  # fmt: skip


class Wrong(Exception):  # noqa: N818 - it says what a value is
    """A value that cannot be used, and what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def shown(value: Any) -> str:
    """How a message shows a value; long ones are cut."""
    if isinstance(value, str | int | float):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = _TYPES.get(type(value), "a date or time")
    return text if len(text) <= 60 else text[:57] + "..."


def text(value: Any) -> str:
    """Text that is not blank."""
    if not isinstance(value, str):
        raise Wrong(f"must be text, not {shown(value)}.", f'Put it in quotes: "{value}".')
    if not value.strip():
        raise Wrong("must not be empty.")
    if "\0" in value:
        raise Wrong("must not contain a NUL character.")
    return value


def choice(*known: str) -> Reader[str]:
    """One word out of a closed list."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        close = nearest(value, known) if isinstance(value, str) else None
        every = ", ".join(f'"{name}"' for name in known) or "none are installed"
        hint = f'Did you mean "{close}"? Known: {every}.' if close else f"Known: {every}."
        raise Wrong(f"cannot be {shown(value)}.", hint)

    return read


def boolean(value: Any) -> bool:
    """true or false, as TOML writes them."""
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {shown(value)}.", "Without quotation marks.")
    return value


def whole(low: int, high: int) -> Reader[int]:
    """A whole number within bounds."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"must be a whole number, not {shown(value)}.", _unquoted(value))
        if not low <= value <= high:
            raise Wrong(f"must be from {low} to {high}, not {shown(value)}.")
        return value

    return read


def _unquoted(value: Any) -> str:
    plain = isinstance(value, str) and value.strip().lstrip("-").isdecimal()
    return f"Remove the quotes: {value.strip()}." if plain else ""


def seconds(low: float, high: float, *, bare: bool = True) -> Reader[float]:
    """A duration in seconds: "500ms", "10s", "15m", "1h30m", or (when `bare`) a plain number."""

    def read(value: Any) -> float:
        number = _seconds(value, bare=bare)
        if not low <= number <= high:
            raise Wrong(f"must be from {span(low)} to {span(high)}, not {shown(value)}.")
        return number

    return read


def whole_seconds(low: int, high: int) -> Reader[int]:
    """A duration that vLLM takes in whole seconds."""
    reader = seconds(low, high)

    def read(value: Any) -> int:
        number = reader(value)
        if number != int(number):
            raise Wrong(f"must be whole seconds, not {shown(value)}: vLLM takes no fraction here.")
        return int(number)

    return read


def _seconds(value: Any, *, bare: bool) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if bare and math.isfinite(value):
            return float(value)
        raise Wrong(f"needs a unit, and has none: {shown(value)}.", 'For example "500ms" or "2s".')
    if isinstance(value, str) and len(value) < 50 and _DURATIONS.fullmatch(value.strip()):
        return sum(float(n) * _SECONDS[unit] for n, unit in _DURATION.findall(value))
    raise Wrong(
        f"must be a duration, not {shown(value)}.", 'For example "500ms", "10s", "15m" or "1h30m".'
    )


def span(number: float) -> str:
    """Seconds as a person writes them: 900 is "15m"."""
    for unit in ("h", "m", "s"):
        if number >= _SECONDS[unit] and number % _SECONDS[unit] == 0:
            return f"{int(number / _SECONDS[unit])}{unit}"
    return f"{number * 1000:g}ms" if number else "0s"


def size(value: Any) -> int:
    """An amount of bytes: "32MiB", or a plain number."""
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        number = int(float(match[1]) * _BYTES[match[2]])
    else:
        raise Wrong(f"must be an amount of bytes, not {shown(value)}.", 'For example "32MiB".')
    if not 1024 <= number <= 2**32:
        raise Wrong(f"must be from 1KiB to 4GiB, not {shown(value)}.")
    return number


def band(value: Any) -> PortBand:
    """A range of ports: "18000-18099"."""
    match = _BAND.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise Wrong(f"must be a range of ports, not {shown(value)}.", 'For example "18000-18099".')
    first, last = int(match[1]), int(match[2] or match[1])
    if first > last:
        raise Wrong(f"runs backwards: {shown(value)}.", f'Did you mean "{last}-{first}"?')
    if first < 1 or last > 65535:
        raise Wrong(f"has ports that do not exist: {shown(value)}.", "Ports are 1 to 65535.")
    if first < 1024:
        raise Wrong(
            f"has privileged ports (below 1024): {shown(value)}.", "Begin at 1024 or above."
        )
    return PortBand(first, last)


def host(value: Any) -> str:
    """An address or a host name."""
    name = text(value)
    if not _HOST.fullmatch(name):
        raise Wrong(
            f"must be an address or a host name, not {shown(value)}.", 'For example "127.0.0.1".'
        )
    return name


def argument(value: Any) -> ArgValue:
    """A vLLM argument; a table is handed over as JSON, as vLLM takes it."""
    if isinstance(value, dict):
        try:
            return json.dumps(value, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError):
            raise Wrong("holds a value that JSON cannot carry.") from None
    return single(value)


def single(value: Any) -> ArgValue:
    """A single value: text, number, true or false."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Wrong(f"must be a finite number, not {value}.")
    if isinstance(value, str):
        if "\0" in value:
            raise Wrong("must not contain a NUL character.")
        return value
    if isinstance(value, bool | int | float):
        return value
    raise Wrong(f"must be one value, not {shown(value)}.", "Write text, a number, true or false.")


def variable(value: Any) -> str:
    """The value of an environment variable."""
    if isinstance(value, bool):
        raise Wrong(f"must be text, not {shown(value)}.", f'Write "{int(value)}".')
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise Wrong(f"must be text, not {shown(value)}.")
    if "\0" in value:
        raise Wrong("must not contain a NUL character.")
    return value
