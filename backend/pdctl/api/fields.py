"""?fields=id,phase: some of what each item of a list says, where a fleet makes the whole large."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any

from fastapi import Query

from pdctl.contract.wire import Wire
from pdctl.domain.errors import OperatorError

Fields = Annotated[
    str | None,
    Query(
        max_length=1000,
        description="Only these of each item, in this order, separated by commas.",
        examples=["id,phase"],
    ),
]


def trimmed(items: Sequence[Wire], model: type[Wire], fields: str) -> list[dict[str, Any]]:
    """`items` with these fields only; OperatorError names one that there is not."""
    names = list(dict.fromkeys(name.strip() for name in fields.split(",")))
    for name in names:
        if name not in model.model_fields:
            close = get_close_matches(name, model.model_fields, n=1)
            known = f"Fields: {', '.join(model.model_fields)}."
            hint = f"Did you mean {close[0]!r}? {known}" if close else known
            raise OperatorError("no_such_field", f"There is no field {name!r} here.", hint)
    dumped = (one.model_dump(mode="json", include=set(names)) for one in items)
    return [{name: one[name] for name in names} for one in dumped]
