"""Clients that never stop asking, and an operator who changes the fleet under them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.e2e.live import ROOT, LiveFleet, wait_for
from tests.e2e.test_handoff import answer, prompt

STREAMS = 4
TOKENS = 60
LENGTHS = (150, 550, 950, 1350, 1750, 2150)
"""Prompt tokens. Each stream takes the prompts in turn; from short to several chunks long."""


@dataclass
class Traffic:
    """Clients that never stop asking, and what came of each request."""

    fleet: LiveFleet
    bodies: list[dict[str, Any]]
    reference: list[str]
    pause_s: float = 0.0
    """What a client waits between an answer and its next request."""
    done: int = 0
    wrong: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Traffic:
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(STREAMS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def _ask(self, first: int) -> None:
        turn = first
        with httpx2.Client(timeout=120) as http:
            while not self._stop.wait(self.pause_s):
                which = turn % len(self.bodies)
                turn += 1
                try:
                    self._one(http, which)
                except (httpx2.HTTPError, KeyError, ValueError) as error:
                    self.wrong.append(f"{which}: {error!r}")

    def _one(self, http: httpx2.Client, which: int) -> None:
        url = f"{self.fleet.router}/v1/completions"
        text, ended = "", False
        body = {"model": "tiny", "temperature": 0, "stream": True, **self.bodies[which]}
        with http.stream("POST", url, json=body) as reply:
            if reply.status_code != 200:
                self.wrong.append(f"{which}: {reply.status_code} {reply.read()!r}")
                return
            for line in reply.iter_lines():
                if line == "data: [DONE]":
                    ended = True
                elif line.startswith("data: "):
                    text += "".join(one["text"] for one in json.loads(line[6:])["choices"])
        if not ended:
            self.wrong.append(f"{which}: the stream was cut after {len(text)} characters")
        elif text != self.reference[which]:
            self.wrong.append(f"{which}: {text[:40]!r} is not {self.reference[which][:40]!r}")
        self.done += 1


def pdctl(fleet: LiveFleet, *words: str, code: int = 0) -> dict[str, Any]:
    """A verb as an operator types it; its JSON, and that it ends with `code`."""
    done = subprocess.run(
        [sys.executable, "-m", "pdctl", *words, "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=500, check=False,
        env={**os.environ, "PDCTL_URL": fleet.admin},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def change(fleet: LiveFleet, *words: str) -> dict[str, Any]:
    """A changing verb, carried out to its end."""
    done = pdctl(fleet, *words, "--yes", "--wait", "--timeout", "8m")
    assert done["state"] == "done"
    return done


def traffic(fleet: LiveFleet, lengths: Sequence[int] = LENGTHS, *, pause_s: float = 0.0) -> Traffic:
    """Streams over prompts whose texts were written by an undisturbed fleet."""
    bodies = [{"prompt": prompt(n, salt=n), "max_tokens": TOKENS} for n in lengths]
    reference = [answer(fleet, stream=False, **body)[0] for body in bodies]
    return Traffic(fleet, bodies, reference, pause_s)


def flows(asked: Traffic, more: int = STREAMS) -> None:
    """Let requests that begin from now on come to their end."""
    seen = asked.done
    wait_for("more answers", lambda: asked.done >= seen + more, seconds=90)


def ids(fleet: LiveFleet) -> set[str]:
    return {one["id"] for one in fleet.fleet()["instances"]}
