"""Print the API's description: `python -m pdctl.api.openapi > docs/openapi.json`."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

from pdctl.api.app import create_api
from pdctl.control.plane import ControlPlane


def describe() -> dict[str, Any]:
    """The OpenAPI document; it needs no control plane, only the routes."""
    return create_api(cast("ControlPlane", None), token=None).openapi()


def text() -> str:
    """The document as it is checked in."""
    return json.dumps(describe(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
