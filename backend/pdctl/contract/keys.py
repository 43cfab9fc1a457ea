"""API keys of the front door on the wire: whose they are, never what they are."""

from __future__ import annotations

from pydantic import Field

from pdctl.contract.wire import SCHEMA_VERSION, Wire


class KeyView(Wire):
    """One client. No limit: null, and no models."""

    name: str
    requests_per_minute: int | None = None
    """Of all router workers together, as `concurrent` is."""
    concurrent: int | None = None
    """Requests that may be open at a time."""
    models: list[str] = Field(default_factory=list)


class KeyPage(Wire):
    """Everybody who may use the front door."""

    schema_version: int = SCHEMA_VERSION
    required: bool
    """False: router.keys_file names no file, and everybody may."""
    items: list[KeyView] = Field(default_factory=list)
    note: str = ""
    """Why nobody is listed, when the file cannot be read."""
