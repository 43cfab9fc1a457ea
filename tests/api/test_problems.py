"""Every error is a problem document with a code and a hint, and never a traceback."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.fakes.world import World

from pdctl.contract.problems import PROBLEM_TYPE, Problem

BAD: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/", {}, 404, "not_found"),
    ("GET", "/api/v1/nothing", {}, 404, "not_found"),
    ("GET", "/api/v2/fleet", {}, 404, "not_found"),
    ("DELETE", "/api/v1/fleet", {}, 405, "method_not_allowed"),
    ("POST", "/api/v1/mode", {}, 405, "method_not_allowed"),
    ("GET", "/api/v1/instances/nope", {}, 404, "no_such_instance"),
    ("GET", "/api/v1/instances/..%2F..%2Fetc/logs", {}, 404, "not_found"),
    ("GET", "/api/v1/pools/nope", {}, 404, "no_such_pool"),
    ("GET", "/api/v1/requests/nope", {}, 404, "no_such_request"),
    ("GET", "/api/v1/requests?limit=0", {}, 422, "invalid_request"),
    ("GET", "/api/v1/requests?limit=9999", {}, 422, "invalid_request"),
    ("GET", "/api/v1/requests?limit=many", {}, 422, "invalid_request"),
    ("GET", "/api/v1/requests?path=sideways", {}, 422, "invalid_request"),
    ("GET", "/api/v1/requests?outcome=fine", {}, 422, "invalid_request"),
    ("GET", "/api/v1/histograms?metric=speed", {}, 422, "invalid_request"),
    ("GET", "/api/v1/histograms?window=61", {}, 422, "invalid_request"),
    ("GET", "/api/v1/histograms/series?window=all", {}, 422, "invalid_request"),
    ("GET", f"/api/v1/histograms/series?{'by=x&' * 99}", {}, 400, "too_many_series"),
    ("GET", f"/api/v1/histograms?{'by=x&' * 401}", {}, 400, "too_many_histograms"),
    ("GET", "/api/v1/events?after=-1x", {}, 400, "bad_position"),
    ("GET", "/api/v1/events?after=9" + "9" * 30, {}, 400, "bad_position"),
    ("GET", "/api/v1/events?limit=0", {}, 422, "invalid_request"),
    ("GET", "/api/v1/instances/prefill-0/logs?tail=-1", {}, 422, "invalid_request"),
    ("GET", "/api/v1/instances/prefill-0/logs?previous=perhaps", {}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"json": {"mode": "sideways"}}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"json": {"mode": "pd", "really": True}}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"json": {}}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"json": []}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"content": b"{oops"}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"content": b"\xff\xfe"}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {}, 422, "invalid_request"),
    ("PUT", "/api/v1/mode", {"content": b"[" * 2_000_000}, 413, "too_large"),
    ("PUT", "/api/v1/mode", {"content": b"[" * 500_000}, 400, "bad_request"),
    ("POST", "/api/v1/instances/decode-2/restart", {}, 409, "not_ready"),
    ("POST", "/api/v1/instances/decode-0/clear", {}, 409, "not_failed"),
]


@pytest.mark.parametrize("mistake", BAD, ids=lambda mistake: f"{mistake[0]} {mistake[1][:40]}")
async def test_every_mistake_is_a_problem(
    http: httpx2.AsyncClient, mistake: tuple[str, str, dict[str, Any], int, str]
) -> None:
    method, path, how, status, code = mistake
    answer = await http.request(method, path, headers={"content-type": "application/json"}, **how)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith(PROBLEM_TYPE)
    problem = Problem.model_validate_json(answer.content)
    assert (problem.status, problem.code) == (status, code)
    assert problem.type == f"urn:pdctl:problem:{code}"
    assert problem.detail
    if status == 405:
        assert answer.headers["allow"]
    if code == "invalid_request":
        assert problem.errors
        assert problem.hint


async def test_a_mounted_face_does_not_answer_for_the_api(app: FastAPI) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("a page of the face")(scope, receive, send)

    app.mount("/", page)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert (await http.get("/requests")).text == "a page of the face"
        assert (await http.get("/api/v1/nothing")).json()["code"] == "not_found"
        assert (await http.get("/api")).json()["code"] == "not_found"
        assert (await http.post("/api/v1/pools/decode")).headers["allow"] == "GET, PUT"


async def test_an_unexpected_failure_tells_nothing_of_the_inside(
    http: httpx2.AsyncClient, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def explode() -> object:
        raise RuntimeError("secret detail of the inside")

    world.plane.load = explode  # type: ignore[assignment]
    answer = await http.get("/api/v1/fleet")
    assert answer.status_code == 500
    problem = Problem.model_validate_json(answer.content)
    assert problem.code == "internal"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "secret detail of the inside" in caplog.text


async def test_a_store_that_fails_is_a_problem_with_its_own_words(
    http: httpx2.AsyncClient, world: World
) -> None:
    world.store.failing = True
    answer = await http.get("/api/v1/requests/unknown-to-memory")
    assert answer.status_code == 500
    assert answer.json()["detail"] == "The disk is full."
    assert (await http.get("/api/v1/events")).status_code == 200


async def test_nothing_under_the_api_is_a_page(http: httpx2.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    for path in document["paths"]:
        if "{" not in path:
            answer = await http.get(path, headers={"accept": "text/html,*/*"})
            assert "html" not in answer.headers["content-type"], path
