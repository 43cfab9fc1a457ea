"""What every answer of the admin API is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
"""Version of the JSON shapes of `--json` and of `/api/v1`; grows only with a breaking change."""


class Wire(BaseModel):
    """Base of all wire models: unknown fields in answers are ignored (newer server, older face)."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)
