"""ETag and If-Match: of two operators who change what both have read, one wins and one is told.

The tag is the revision of the desired fleet: it says nothing about what is observed, and so it is
no reason to answer 304.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, Response

from pdctl.api.context import Plane
from pdctl.control.plane import ControlPlane
from pdctl.domain.errors import OperatorError

TAGS = r'^\s*(?:\*|(?:W/)?"[!#-~]*"(?:\s*,\s*(?:W/)?"[!#-~]*")*)\s*$'
"""What a client may send, for the API's description; `expected_of` says it in words."""
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')
_OURS = re.compile(r'"(\d{1,9})"')


def tag(response: Response, plane: ControlPlane) -> None:
    """Name the revision that this answer shows."""
    response.headers["ETag"] = f'"{plane.state.fleet.desired.revision}"'


def expected_of(
    plane: Plane,
    if_match: Annotated[
        str | None,
        Header(
            description='ETag of what was read, such as "7": 412 when the fleet has another '
            "revision by now.",
            json_schema_extra={"pattern": TAGS},
        ),
    ] = None,
) -> frozenset[int] | None:
    """The revisions that a change is meant for; None: whatever there is."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = [part.strip() for part in if_match.split(",")]
    if not all(_TAG.fullmatch(part) for part in tags):
        raise OperatorError(
            "bad_if_match", f"{if_match[:80]!r} is not an If-Match header.",
            f'Send the ETag of what you read, such as "{plane.state.fleet.desired.revision}".',
        )  # fmt: skip
    ours = (_OURS.fullmatch(part) for part in tags)  # a weak tag never matches (RFC 9110)
    return frozenset(int(found[1]) for found in ours if found)


Expected = Annotated[frozenset[int] | None, Depends(expected_of)]
