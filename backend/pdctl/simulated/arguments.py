"""The program's command line: a flag for every field of `SimConfig` and `Timing`, and for its life.

An unknown flag or a bad value ends the program with code 2, as vLLM's does.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson

from pdctl.simulated.config import SimConfig, Timing
from pdctl.simulated.faults import Faults, UnknownFaultError


@dataclass(frozen=True, slots=True)
class Options:
    """What the program was asked to be."""

    config: SimConfig
    faults: Faults
    host: str
    port: int
    side_channel_port: int
    startup_delay: float
    """Real seconds of loading before the port answers."""
    shutdown_timeout: float
    """Real seconds that SIGTERM leaves to requests under way; 0 cuts them, as in vLLM."""
    with_engine_core: bool
    """Whether to have an EngineCore and a Worker, which outlive a killed parent as vLLM's do."""


def parse(argv: Sequence[str] | None = None) -> Options:
    """Read `argv`; exits with code 2 when it cannot be understood."""
    parser = _parser()
    given = vars(parser.parse_args(argv))
    timing = Timing(**{one.name: given.pop(one.name) for one in fields(Timing)})
    names = [one.name for one in fields(SimConfig) if one.name != "timing"]
    faults = Faults()
    try:
        config = SimConfig(timing=timing, **{name: given.pop(name) for name in names})
        faults.update(given.pop("faults"))
    except (UnknownFaultError, ValueError) as error:
        parser.error(str(error))
    return Options(config=config, faults=faults, **given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pdctl.simulated",
        description="A simulated vLLM engine: it speaks vLLM's HTTP dialect and computes nothing.",
        allow_abbrev=False,
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    port = int(os.environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600"))
    parser.add_argument("--side-channel-port", type=int, default=port)
    parser.add_argument("--startup-delay", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--shutdown-timeout", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--with-engine-core", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument(
        "--faults", type=_object, default={}, metavar="JSON", help="faults to start with"
    )
    _add_fields(parser, Timing, Timing())
    host = os.environ.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1")
    _add_fields(parser, SimConfig, SimConfig(side_channel_host=host))
    return parser


def _add_fields(parser: argparse.ArgumentParser, kind: type, default: Any) -> None:
    """A flag for each field of the dataclass `kind`."""
    hints = get_type_hints(kind)
    for one in fields(kind):
        if one.name == "timing":
            continue
        flags = [f"--{one.name.replace('_', '-')}"]
        if one.name == "model_name":
            flags.append("--served-model-name")
        value = getattr(default, one.name)
        hint = hints[one.name]
        if hint is bool:
            action = argparse.BooleanOptionalAction
            parser.add_argument(*flags, dest=one.name, action=action, default=value)
        elif get_origin(hint) is Literal:
            parser.add_argument(*flags, dest=one.name, choices=get_args(hint), default=value)
        else:
            parser.add_argument(*flags, dest=one.name, type=_scalar(hint), default=value)


def _scalar(hint: Any) -> type:
    """The type to parse a value with; an optional field's own type."""
    if get_origin(hint) in (Union, type(int | None)):
        hint = next(one for one in get_args(hint) if one is not type(None))
    kind: type = hint
    return kind


def _object(text: str) -> dict[str, Any]:
    value = orjson.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("a JSON object is needed")
    return value
