"""Whatever is asked, the answer is never a server error and never anything but our shapes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import quote

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.clock import VirtualClock
from tests.fakes.world import World

from pdctl.api import create_api
from pdctl.contract.problems import PROBLEM_TYPE, Problem

APP = create_api(
    World(VirtualClock(), "normal", Path(tempfile.mkdtemp(prefix="pdctl-fuzz-"))).plane, token=None
)
PATHS = [
    (template, method.upper(), [one["name"] for one in operation.get("parameters", ())])
    for template, methods in APP.openapi()["paths"].items()
    for method, operation in methods.items()
    if template not in ("/readyz", "/metrics")
]
JUNK = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["-1", "0", "1e9", "true", "null", "NaN", "\0", "../..", "%", "a" * 3000]),
    st.integers(-(10**20), 10**20).map(str),
)


@settings(max_examples=150, deadline=None)
@given(st.data())
async def test_junk_is_answered_in_kind(data: st.DataObject) -> None:
    template, method, names = data.draw(st.sampled_from(PATHS))
    path, query = template, {}
    for name in names:
        if name == "follow":
            continue
        value = data.draw(JUNK, label=name)
        if f"{{{name}}}" in template:
            path = path.replace(f"{{{name}}}", quote(value, safe="", errors="replace") or "x")
        else:
            query[name] = value.encode(errors="replace").decode()
    body = data.draw(st.none() | st.binary(max_size=40), label="body")
    transport = httpx2.ASGITransport(APP)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.request(method, path, params=query, content=body)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"].startswith(PROBLEM_TYPE)
        assert Problem.model_validate_json(answer.content).code
