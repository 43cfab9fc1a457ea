"""Golden checks on the wire: do P/D and whole give the same answer?"""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict, Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire


class GoldenBody(Wire):
    """Which pair; null: the one that was checked longest ago."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{}, {"prefill": "prefill-0", "decode": "decode-1"}]}
    )

    prefill: str | None = Field(default=None, max_length=256)
    decode: str | None = Field(default=None, max_length=256)


class GoldenView(Wire):
    """One check."""

    at: datetime
    prefill: str
    decode: str
    equal: bool | None = None
    """null: it could not be made; `why` says so."""
    why: str = ""
    tokens: int = 0
    """Compared."""
    differs_at: int | None = None
    """Index of the first token that differs."""
    whole: str = ""
    """What decode alone said from there on: token ids, where the engine tells them."""
    handed_over: str = ""


class GoldenPage(Wire):
    """The newest checks of this start, newest first."""

    schema_version: int = SCHEMA_VERSION
    simulated: bool = False
    """The engines of this fleet are simulated: this says nothing of vLLM."""
    every_s: float | None = None
    """How often they are made; null: only when asked for."""
    items: list[GoldenView]
