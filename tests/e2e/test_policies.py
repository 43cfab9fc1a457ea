"""Policies and the threshold of a handoff are switched while a fleet serves, and outlive pdctl."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import SUBPROCESS, _run
from tests.e2e.live import LiveFleet, wait_for

LONG = "The committee met again and could not agree on the wording of its own minutes. " * 40


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """2 prefill + 2 decode of simulated engines, each a process; a router worker."""
    folder = tmp_path_factory.mktemp("policies")
    yield from _run(
        LiveFleet("simulated", folder, SUBPROCESS, "tiny", prefill="", decode="", sizes=(2, 2))
    )


def switch(fleet: LiveFleet, **settings: Any) -> dict[str, Any]:
    """Switch settings of the router; the settings then in force."""
    answer = fleet.http.patch(f"{fleet.admin}/api/v1/router", json=settings)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def story(fleet: LiveFleet, prompt: str, **headers: str) -> dict[str, Any]:
    """One completion, and its record once the control plane has it."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 4, "temperature": 0}
    answer = fleet.http.post(f"{fleet.router}/v1/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    id_ = answer.headers["x-request-id"]

    def kept() -> Any:
        reply = fleet.http.get(f"{fleet.admin}/api/v1/requests/{id_}")
        return reply.json() if reply.status_code == 200 else None

    return dict(wait_for("the record", kept, seconds=30))


def whys(record: dict[str, Any]) -> list[str]:
    """The reason of each leg's instance."""
    return [leg["why"] for leg in record["legs"]]


def until_routed(fleet: LiveFleet, words: str, prompt: str, **headers: str) -> dict[str, Any]:
    """The first record that was routed as `words` say: workers get a table a moment later."""
    return dict(
        wait_for(
            f"a leg because of {words!r}",
            lambda: (
                record
                if words in " ".join(whys(record := story(fleet, prompt, **headers)))
                else None
            ),
            seconds=30,
        )
    )


def test_a_switch_reaches_the_workers_and_every_choice_says_why(fleet: LiveFleet) -> None:
    starts = [(one["id"], one["generation"]) for one in fleet.fleet()["instances"]]
    assert "least loaded" in " ".join(whys(story(fleet, "hello")))
    switch(fleet, prefill_policy="prefix_affinity", decode_policy="session_affinity")
    until_routed(fleet, "no session", "x" + LONG)
    first = story(fleet, LONG, **{"X-Session-Id": "ann"})
    again = story(fleet, LONG, **{"X-Session-Id": "ann"})
    assert "prompt tokens cached, " in whys(again)[0]
    assert "home of its session" in whys(again)[1]
    assert [leg["instance"] for leg in again["legs"]] == [leg["instance"] for leg in first["legs"]]
    assert [(one["id"], one["generation"]) for one in fleet.fleet()["instances"]] == starts


def test_short_prompts_stay_on_decode_once_a_threshold_is_set(fleet: LiveFleet) -> None:
    switch(fleet, pd_min_prompt_tokens=256)
    record = until_routed(fleet, "a handoff is for 256 or more", "short")
    assert (record["path"], record["path_reason"]) == ("aggregated", "short_prompt")
    assert story(fleet, "other " + LONG)["path"] == "pd"
    switch(fleet, pd_min_prompt_tokens=0)
    wait_for("short ones handed over", lambda: story(fleet, "s")["path"] == "pd", seconds=30)


def test_a_switch_outlives_a_killed_control_plane(fleet: LiveFleet) -> None:
    switch(fleet, decode_policy="power_of_two", pd_min_prompt_tokens=7)
    fleet.stop(signal.SIGKILL)
    fleet.start()
    fleet.wait_ready()
    now = fleet.get("/api/v1/router")
    assert (now["decode_policy"], now["pd_min_prompt_tokens"]) == ("power_of_two", 7)
    assert "less loaded of two drawn from 2" in whys(story(fleet, LONG + "z"))[1]
