"""/keys: names and limits of the front door's API keys; neither a key nor its digest leaves.

Routers read the file by themselves, within a second of a change; this reads it when asked.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter

from pdctl.api.context import Plane
from pdctl.contract.keys import KeyPage, KeyView
from pdctl.domain.keys import KeysError, parse

router = APIRouter(prefix="/keys", tags=["router"])


@router.get("", operation_id="listKeys")
async def list_keys(plane: Plane) -> KeyPage:
    """Whose API keys the front door takes, with their limits. `pdctl keys` makes and ends them."""
    file = plane.state.fleet.desired.router.keys_file
    if not file:
        return KeyPage(required=False)
    try:
        found = parse(await asyncio.to_thread(Path(file).read_text, encoding="utf-8"))
    except (OSError, UnicodeDecodeError, KeysError) as error:
        said = getattr(error, "strerror", None) or str(error)
        return KeyPage(required=True, note=f"The keys file cannot be used: {said}.")
    return KeyPage(required=True, items=[KeyView.model_validate(one) for one in found.values()])
