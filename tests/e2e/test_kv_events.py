"""The policy kv_events: what an engine computed behind the router's back is found there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import SUBPROCESS, _run, real_engine
from tests.e2e.live import LiveFleet, wait_for

LONG = "The committee met again and could not agree on the wording of its own minutes. " * 14
OTHER = "Nobody had expected the harbour to freeze before the last ships had come home. " * 14
PUBLISHES = "\nkv_events = true"


@pytest.fixture(scope="module", params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveFleet]:
    """1 prefill + 1 decode, both publishing, in chunked mode: either serves any request."""
    folder, cores = tmp_path_factory.mktemp("kv-events"), ("", "")
    engine, model, kind = SUBPROCESS, "tiny", "simulated"
    if request.param == "real":
        request.getfixturevalue("real_machine")
        (engine, model), kind = real_engine({}, {}), "vllm"
        cores = ('cores = ["0"]', 'cores = ["1"]')
    prefill, decode = (lines + PUBLISHES for lines in cores)
    fleet = LiveFleet(kind, folder, engine, model, prefill=prefill, decode=decode)
    for one in _run(fleet):
        one.set_mode("chunked")
        policies = {"prefill_policy": "kv_events", "decode_policy": "kv_events"}
        answer = one.http.patch(f"{one.admin}/api/v1/router", json=policies)
        assert answer.status_code == 200, answer.text
        yield one


def followed(fleet: LiveFleet) -> dict[str, Any]:
    """By instance, how its events are followed."""
    return {one["instance"]: one for one in fleet.get("/api/v1/router")["kv_events"]}


def ask(fleet: LiveFleet, base: str, **fields: Any) -> Any:
    """One completion from the router or from an engine itself."""
    body = {"model": "tiny", "max_tokens": 4, "temperature": 0, **fields}
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    answer = fleet.http.post(f"{base}{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer


def record(fleet: LiveFleet, answer: Any) -> dict[str, Any]:
    """The record of what the router answered."""
    path = f"{fleet.admin}/api/v1/requests/{answer.headers['x-request-id']}"

    def kept() -> Any:
        reply = fleet.http.get(path)
        return reply.json() if reply.status_code == 200 else None

    return dict(wait_for("the record", kept, seconds=30))


@pytest.mark.parametrize("instance", ["prefill-0", "decode-0"])
@pytest.mark.parametrize("chat", [False, True], ids=["completion", "chat"])
def test_the_instance_that_holds_the_prompt_is_chosen(
    live: LiveFleet, instance: str, chat: bool
) -> None:
    text = f"{instance} {chat} " + LONG
    prompt: dict[str, Any] = {"prompt": text}
    if chat:
        prompt = {"messages": [{"role": "user", "content": text}]}
    wait_for(
        "both followed",
        lambda: len(told := followed(live)) == 2 and not any(o["why_not"] for o in told.values()),
        seconds=60,
    )
    port = next(o["http_port"] for o in live.fleet()["instances"] if o["id"] == instance)
    before = followed(live)[instance]["blocks"]
    ask(live, f"http://127.0.0.1:{port}", **prompt)
    wait_for(
        "its blocks are known", lambda: followed(live)[instance]["blocks"] > before, seconds=30
    )
    story = record(live, ask(live, live.router, **prompt))
    leg = story["legs"][0]
    assert leg["instance"] == instance
    claimed = (
        f"{story['cached_tokens']} of {story['prompt_tokens']} tokens cached by its own events"
    )
    assert leg["why"].startswith(claimed)
    assert story["cached_tokens"] >= 128


def test_metrics_tell_how_events_are_followed(live: LiveFleet) -> None:
    text = live.http.get(f"{live.admin}/metrics").text
    for instance in ("prefill-0", "decode-0"):
        assert f'pdctl_kv_events_followed{{instance="{instance}"}} 1.0' in text
        assert f'pdctl_kv_events_forgotten_total{{instance="{instance}"}} 0.0' in text


def by_events(fleet: LiveFleet) -> dict[str, Any] | None:
    """The record of a request whose every leg was chosen by what is held; None for others."""
    story = record(fleet, ask(fleet, fleet.router, prompt=OTHER))
    whys = [leg["why"] for leg in story["legs"]]
    return story if all(why[0].isdigit() and "own events" in why for why in whys) else None


def test_a_handoff_fills_both_ends_and_both_are_found_again(live: LiveFleet) -> None:
    live.set_mode("pd")
    try:
        assert record(live, ask(live, live.router, prompt=OTHER))["path"] == "pd"
        again = wait_for("both ends known", lambda: by_events(live), seconds=30)
        assert (again["path"], len(again["legs"])) == ("pd", 2)
    finally:
        live.set_mode("chunked")
