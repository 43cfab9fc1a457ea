"""Schemathesis reads the API's own description and tries to catch it lying.

Left out: streams that do not end, and "what the description allows is accepted": an unknown
instance, a stale plan or a fleet file with a mistake are refused for reasons that no schema knows.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction, load_all_checks
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.api import create_api

load_all_checks()
WORLD = World(VirtualClock(), "normal", Path(tempfile.mkdtemp(prefix="pdctl-schema-")))
COUNT = itertools.count()
TEXTS = {"by", "slo"}
"""Query parameters that are lists of texts."""
HERE = {"Host": "127.0.0.1"}
SCHEMA = (
    schemathesis.openapi.from_asgi(
        "/openapi.json", create_api(WORLD.plane, token=None), headers=HERE
    )
    .exclude(path="/api/v1/events")
    .exclude(path="/readyz")  # its 503 is an answer
    .exclude(path_regex="/logs$")
)


@SCHEMA.parametrize()
@settings(
    max_examples=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_the_api_is_as_it_is_described(case: schemathesis.Case[Any]) -> None:
    key = str(case.headers.get("Idempotency-Key") or "")
    if re.fullmatch("[!-~]{1,200}", key):  # a good one: nobody else's
        case.headers["Idempotency-Key"] = f"{key}{next(COUNT)}"
    left_out: list[CheckFunction] = [positive_data_acceptance]
    if TEXTS & (case.query or {}).keys():  # to it, ?by=true is no list of one text
        left_out.append(negative_data_rejection)
    answer = case.call(headers=HERE)
    if answer.status_code == 413:  # refused for its size, before anything else is looked at
        left_out.append(negative_data_rejection)
    case.validate_response(answer, excluded_checks=left_out, headers=HERE)
