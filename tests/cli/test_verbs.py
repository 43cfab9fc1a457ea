"""Each verb against the real API over a simulated world: text, JSON, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Live, Run

from pdctl.cli.latency import WINDOWS
from pdctl.cli.status import _before, _lack
from pdctl.cli.terminal import Terminal
from pdctl.cli.waterfall import tokens_out, tpot, waterfall
from pdctl.contract.resources import (
    CheckView,
    CommandView,
    ExitView,
    FleetView,
    ModeView,
    ReadyView,
    RequestPage,
    RequestView,
)
from pdctl.control.latency import WINDOWS_S

pytestmark = pytest.mark.usefixtures("url")


def test_status_shows_every_instance_and_pair(run: Run, live: Live) -> None:
    ran = run("status")
    assert ran.code == 0
    assert ran.err == ""
    for one in live.world.plane.state.fleet.instances:
        assert one.id in ran.out
    assert "prefill-0 > decode-0" in ran.out
    assert "SIMULATED" in ran.out
    assert "\x1b" not in ran.out


def test_status_as_json_is_the_fleet_with_a_schema_version(run: Run) -> None:
    document = run("status", "--json").document
    assert document["schema_version"] == 1
    assert FleetView.model_validate(document).shape == "2p3d"


def test_status_of_a_sick_fleet_has_its_own_exit_code(run: Run, tmp_path: Path) -> None:
    with Live("failing", tmp_path) as sick:
        ran = run("status", "--url", sick.url)
    assert ran.code == 3
    assert "not ready" in ran.out
    assert "failed" in ran.out


def test_what_the_fleet_lacks_is_in_whole_sentences() -> None:
    def said(*, ready: bool, fix: str) -> str:
        check = CheckView(name="handoff", ok=False, detail="0 of 1 pair hands over", fix=fix)
        return _lack(check, ReadyView(ready=ready, checks=[check]))

    assert said(ready=True, fix="Requests are served whole.") == (
        "limited: handoff: 0 of 1 pair hands over. Requests are served whole."
    )
    assert said(ready=False, fix="`pdctl status` says more.") == (
        "not ready: handoff: 0 of 1 pair hands over."
    )


def test_a_later_start_says_what_became_of_the_one_before() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert _before(2, ExitView(at=at, code=0)) == ""
    killed = ExitView(at=at, signal=9)
    assert _before(2, killed) == "start 2: the one before was killed by signal 9"
    raced = ExitView(at=at, code=1, first_error="OSError: [Errno 98] Address already in use")
    assert _before(3, raced) == (
        "start 3: the one before exited with code 1 (OSError: [Errno 98] Address already in use)"
    )


@pytest.mark.parametrize("words", [("requests",), ("latency",), ("mode",), ("events",)])
def test_numbers_of_simulated_engines_say_so(run: Run, words: tuple[str, ...]) -> None:
    assert "SIMULATED" in run(*words).err


def test_color_is_forced_and_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mready" in run("status").out
    assert "\x1b" not in run("status", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("status").out


def test_requests_list_and_page(run: Run) -> None:
    first = run("requests", "--limit", 5)
    assert first.code == 0
    assert len(first.out.splitlines()) == 6
    assert "pdctl requests --before" in first.err
    page = RequestPage.model_validate(run("requests", "--limit", 5, "--json").document)
    assert len(page.items) == 5
    older = run("requests", "--limit", 2, "--before", page.next or "", "--json").document
    assert older["items"][0]["id"] not in {one.id for one in page.items}


def test_requests_are_exported(run: Run) -> None:
    lines = run("requests", "--export", "--path", "pd").documents
    assert {one["path"] for one in lines} == {"pd"}
    listed = run("requests", "--path", "pd", "--limit", 1, "--json").document["items"]
    assert listed[0]["id"] == lines[0]["id"]
    refused = run("requests", "--export", "--follow")
    assert refused.code == 2
    assert "--export or --follow" in refused.err


def test_requests_are_filtered(run: Run) -> None:
    items = run("requests", "--path", "pd", "--outcome", "ok", "--json").document["items"]
    assert items
    assert {(one["path"], one["outcome"]) for one in items} == {("pd", "ok")}
    slow = run("requests", "--slowest", "--json").document["items"]
    times = [one["e2e_ms"] for one in slow if one["e2e_ms"] is not None]
    assert times == sorted(times, reverse=True)


def test_one_request_is_a_waterfall(run: Run) -> None:
    id_ = run("requests", "--path", "pd", "--outcome", "ok", "--json").document["items"][0]["id"]
    ran = run("requests", id_)
    assert ran.code == 0
    assert "prefill compute" in ran.out
    assert "KNOWN BY" in ran.out
    assert "measured" in ran.out
    assert "█" in ran.out or "#" in ran.out
    one = run("requests", id_, "--json").document
    assert one["schema_version"] == 1
    assert RequestView.model_validate(one).spans


def test_a_request_is_found_by_the_start_of_its_id(run: Run) -> None:
    newest = run("requests", "--limit", 1, "--json").document["items"][0]["id"]
    assert run("requests", newest[:-2], "--json").document["id"] == newest
    many = run("requests", newest[:6])  # they are numbered in this world
    assert many.code == 2
    assert "Give more." in many.err
    assert run("requests", newest[:5]).code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--path", "bogus"), "There is no path 'bogus'"),
        (("--path", "chunk"), 'Did you mean "chunked"?'),
        (("--outcome", "okay"), "There is no outcome 'okay'"),
        (("--instance", "decod-0"), 'Did you mean "decode-0"?'),
        (("--before", "zzz"), "There is no finished request 'zzz'"),
    ],
)
def test_a_filter_that_fits_nothing_is_wrong_usage(
    run: Run, words: tuple[str, str], said: str
) -> None:
    ran = run("requests", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 140, 200])
def test_a_waterfall_fits_its_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    id_ = run("requests", "--path", "pd", "--outcome", "ok", "--json").document["items"][0]["id"]
    monkeypatch.setenv("COLUMNS", str(columns))
    out = run("requests", id_).out
    assert max(map(len, out.splitlines())) <= max(columns, 70)
    one = RequestView.model_validate(run("requests", id_, "--json").document)
    for span in one.spans:
        assert span.name in out
        assert all(word in out for word in span.note.split())
    if columns >= 100:
        rows = [line for line in out.splitlines() if line.startswith("decode")]
        assert any("decode-" in row for row in rows)
    assert "SIMULATED" in out


def test_tokens_counted_from_chunks_are_a_lower_bound() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    fields: dict[str, Any] = {
        "id": "r1", "received_at": at, "endpoint": "/v1/completions", "stream": True,
        "mode": "pd", "path": "pd", "outcome": "ok", "status": 200,
        "completion_tokens": 59, "tpot_ms": 8.0,
    }  # fmt: skip
    exact, derived = RequestView(**fields), RequestView(**fields, completion_derived=True)
    terminal = Terminal(out=TextIOWrapper(BytesIO(), encoding="utf-8"))
    assert (tokens_out(terminal, exact), tpot(terminal, exact)) == ("59", "8.0 ms")
    assert (tokens_out(terminal, derived), tpot(terminal, derived)) == ("≥59", "≤8.0 ms")
    assert any("at least" in line for line in waterfall(terminal, derived))
    plain = Terminal(out=TextIOWrapper(BytesIO(), encoding="ascii"))
    assert tokens_out(plain, derived) == ">=59"


def test_an_unknown_request_is_a_sentence(run: Run) -> None:
    ran = run("requests", "nope")
    assert (ran.code, ran.out) == (1, "")
    assert "nope" in ran.err
    assert "Traceback" not in ran.err


def test_following_shows_what_finishes_from_now_on(run: Run, live: Live, url: str) -> None:
    newest = run("requests", "--limit", 1, "--json").document["items"][0]["id"]
    with subprocess.Popen(
        [sys.executable, "-m", "pdctl", "requests", "-f", "--limit", "1", "--json"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PDCTL_URL": url},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == newest
        ticking = threading.Event()

        def time_passes() -> None:
            while not ticking.wait(0.05):
                live.do(live.world.tick)

        ticker = threading.Thread(target=time_passes)
        ticker.start()
        later = json.loads(process.stdout.readline())
        ticking.set()
        ticker.join()
        process.kill()
    assert later["schema_version"] == 1
    assert later["id"] != newest


def test_slowest_cannot_be_followed(run: Run) -> None:
    assert run("requests", "--slowest", "--follow").code == 2


def test_mode_is_shown_and_switched(run: Run) -> None:
    assert run("mode").out == "pd\n"
    switched = run("mode", "chunked", "--json").document
    assert switched["schema_version"] == 1
    assert ModeView.model_validate(switched).mode == "chunked"
    assert run("mode", "pd").out == "pd\n"


def test_waiting_for_a_mode_has_an_end(run: Run, live: Live) -> None:
    live.do(live.world.tick)
    end = time.monotonic() + 30
    ran = run("mode", "chunked", "--wait", "--timeout", 0)
    while ran.code == 0 and time.monotonic() < end:  # nothing was under way just then
        live.do(live.world.tick)
        run("mode", "pd")
        ran = run("mode", "chunked", "--wait", "--timeout", 0)
    run("mode", "pd")
    assert ran.code == 6
    assert "still on the old path" in ran.err


def test_an_unknown_mode_names_the_nearest(run: Run) -> None:
    ran = run("mode", "chunk")
    assert ran.code == 2
    assert 'Did you mean "chunked"?' in ran.err


def test_latency_percentiles(run: Run) -> None:
    ran = run("latency")
    assert [line.split()[0] for line in ran.out.splitlines()] == [
        "METRIC", "ttft", "tpot", "itl", "e2e", "queue", "prefill", "transfer",
    ]  # fmt: skip
    assert run("latency", "--metric", "ttft", "--json").document["items"][0]["metric"] == "ttft"
    assert run("latency", "--metric", "tttf").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--window", 7), "Windows: 60, 300, 3600, or --since-start."),
        (("--window", 60, "--since-start"), "not both"),
        (
            ("--by", "foo"),
            "Known: all, mode:NAME, pool:NAME, model:NAME, instance:NAME, pair:NAME.",
        ),
        (("--by", "pool:decod"), 'Did you mean "decode"?'),
        (("--by", "instance:decode-77"), "There is no instance 'decode-77'"),
    ],
)
def test_latency_that_cannot_be_asked_for(
    run: Run, words: tuple[str | int, ...], said: str
) -> None:
    ran = run("latency", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_the_windows_are_those_that_are_kept() -> None:
    assert (*WINDOWS, None) == WINDOWS_S


def test_logs(run: Run) -> None:
    ran = run("logs", "prefill-0", "--tail", 2)
    assert len(ran.out.splitlines()) == 2
    assert len(run("logs", "prefill-0", "--tail", 2, "--json").document["lines"]) == 2
    missing = run("logs", "prefil-0")
    assert missing.code == 1
    assert "Instances: prefill-0" in missing.err


def test_command_of_a_running_instance_hides_secrets(run: Run) -> None:
    ran = run("command", "prefill-0")
    assert "HF_TOKEN='********' \\\n" in ran.out
    document = run("command", "prefill-0", "--json").document
    assert document["schema_version"] == 1
    assert CommandView.model_validate(document).instance == "prefill-0"


def test_events(run: Run, live: Live) -> None:
    run("mode", "pd")
    ran = run("events", "--limit", 500)
    assert "operation" in ran.out
    page = run("events", "--topic", "operation", "--json").document
    assert {one["kind"] for one in page["items"]} == {"operation"}
    page = run("events", "--topic", "pair", "--json").document
    assert {one["kind"] for one in page["items"]} <= {"pair.changed"}
    assert run("events", "--topic", "pear").code == 2
    assert run("events", "--after", page["seq"] + 1000, "--json").document["items"] == []


def test_a_wrong_token_is_denied_and_the_right_one_is_not(run: Run, tmp_path: Path) -> None:
    (tmp_path / "right").write_text("secret\n")
    (tmp_path / "wrong").write_text("guess\n")
    with Live("normal", tmp_path / "world", token="secret") as guarded:
        assert run("status", "--url", guarded.url).code == 7
        assert run("status", "--url", guarded.url, "--token-file", tmp_path / "wrong").code == 7
        assert run("status", "--url", guarded.url, "--token-file", tmp_path / "right").code == 0


def test_nobody_there(run: Run) -> None:
    ran = run("status", "--url", "http://127.0.0.1:1")
    assert (ran.code, ran.out) == (4, "")
    assert "Is `pdctl serve` running" in ran.err
    assert run("status", "--url", "http://127.0.0.1:1", "--token-file", "/nope").code == 2
