"""A frozen engine: its signal fires, outlives pdctl, reaches a webhook that fails, and ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SUBPROCESS
from tests.e2e.conftest import _run as running
from tests.e2e.live import LiveFleet, wait_for

FROZEN = "not_answering:decode-0"
SIGNALS = """
[signals.not_answering]
threshold = "7s"

[signals.webhook]
url = "{url}"
"""


class Hook:
    """A webhook that fails twice before it takes anything."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.told: list[tuple[str, str]] = []
        hook = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = 503 if len(hook.asked) < 2 else 200
                hook.asked.append(status)
                if status == 200:
                    hook.told += [
                        (f"{one['labels']['alertname']}:{one['labels']['subject']}", one["status"])
                        for one in body["alerts"]
                    ]
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/signals"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    one = Hook()
    yield one
    one.close()


@pytest.fixture
def watched(tmp_path: Path, hook: Hook) -> Iterator[LiveFleet]:
    """A fleet of its own that tells the hook."""
    lines = SUBPROCESS + SIGNALS.replace("{url}", hook.url)
    yield from running(LiveFleet("simulated", tmp_path / "fleet", lines, "tiny"))


def firing(fleet: LiveFleet) -> dict[str, Any] | None:
    items = fleet.get("/api/v1/signals")["items"]
    found = [one for one in items if one["id"] == FROZEN and one["state"] == "firing"]
    return found[0] if found else None


def test_a_frozen_engine_is_told_and_forgotten_by_nobody(watched: LiveFleet, hook: Hook) -> None:
    pid = watched.engine_pids()["decode-0"]
    os.kill(pid, signal.SIGSTOP)
    try:
        fired = wait_for("the signal", lambda: firing(watched), seconds=120)
        assert "pdctl restart decode-0" in fired["knob"]
        assert watched.fleet()["signals"] >= 1
        told = (FROZEN, "firing")
        wait_for("the webhook's third answer", lambda: told in hook.told, seconds=120)
        assert hook.asked[:3] == [503, 503, 200]
        stored = f"/api/v1/signals/{FROZEN}/ack"
        watched.http.post(watched.admin + stored, json={"note": "seen"}).raise_for_status()
        watched.stop(signal.SIGKILL)
        watched.start()
        again = wait_for("the signal after a restart", lambda: firing(watched), seconds=120)
        assert again["fired_at"] == fired["fired_at"]
        assert again["ack"]["note"] == "seen"
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for("the end of it", lambda: firing(watched) is None, seconds=180)
    wait_for("the webhook to hear of it", lambda: (FROZEN, "resolved") in hook.told, seconds=120)
    over = [one for one in watched.get("/api/v1/signals/history")["items"] if one["id"] == FROZEN]
    assert [(one["state"], one["ack"]["note"]) for one in over] == [("resolved", "seen")]
