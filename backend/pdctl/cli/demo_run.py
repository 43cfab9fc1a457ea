"""The demo's companion: shows the start, sends one request through the handoff, says what happened.

It knows the fleet through the admin client alone, as every face does.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pdctl.cli import figures
from pdctl.cli.demo_progress import open_progress
from pdctl.cli.terminal import Terminal
from pdctl.cli.waterfall import waterfall

if TYPE_CHECKING:
    from pdctl.app import Served
    from pdctl.client.admin import AdminClient
    from pdctl.contract.resources import FleetView, InstanceView, RequestView
    from pdctl.domain.topology import FleetSpec

LOOK_S = 0.25
READY_S = 900.0
"""A first start on a slow machine; vLLM's own progress is watched by the reconciler."""
ANSWER_S = 120.0
SETTLE_S = 10.0
"""How long to wait for the record, and for the scrape that knows the bytes."""
QUESTION = (
    "A prefill instance reads a prompt, all of its tokens at once, and keeps the keys and values "
    "that attention computed for them. A decode instance then writes the answer, one token after "
    "the other. Between the two the keys and values travel. Why would somebody run the two on "
    "different machines, and what does it cost? Answer in a few words, please: prompts like this "
    "one are long enough to fill more than one block of the cache, so that something travels."
)


class DemoError(Exception):
    """The demo cannot go on; the sentence says why."""


class Companion:
    """Called by `serve` once the admin API answers."""

    def __init__(self, terminal: Terminal, fleet: FleetSpec, *, request: bool, once: bool) -> None:
        self.terminal, self.fleet = terminal, fleet
        self.request, self.once = request, once
        self.failure = ""
        self._served: Served | None = None
        """Set while the demo is up and nothing else speaks."""

    def tell(self, at: float, line: str) -> None:
        """A change of state: said once the start is over, and until the stop begins."""
        if self._served is not None and not self._served.stopping.is_set():
            self.terminal.say(f"{figures.clock(datetime.fromtimestamp(at, UTC))}  {line}")

    async def __call__(self, served: Served) -> None:
        """Watch, ask, tell; then leave the fleet running, or stop it when asked to."""
        try:
            await self._until_ready(served)
            if self.request:
                await self._ask(served)
        except DemoError as error:
            self.failure = str(error)
            served.stop()
            return
        if self.once:
            served.stop()
        else:
            self._urls(served)
            self.terminal.say("Ctrl-C stops everything.")
            self._served = served

    async def _until_ready(self, served: Served) -> None:
        end = time.monotonic() + READY_S
        with open_progress(self.terminal) as progress:
            while True:
                fleet = await served.client.fleet()
                progress.show(fleet)
                given_up = [one for one in fleet.instances if one.phase == "failed"]
                if given_up:
                    raise DemoError(_why(given_up[0]))
                if fleet.instances and (await served.client.ready()).ready and _whole(fleet):
                    break
                if time.monotonic() > end:
                    raise DemoError(_late(fleet))
                if served.stopping.is_set():
                    raise DemoError("Stopped before the fleet was ready.")
                await asyncio.sleep(LOOK_S)
            progress.done()

    async def _ask(self, served: Served) -> None:
        url = f"{served.router_url.rstrip('/')}/v1/chat/completions"
        body = {
            "model": self.fleet.served_name,
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": 32,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        self.terminal.say(f"\nPOST {url}")
        text, id_ = await stream(url, body)
        record = await _record(served.client, id_)
        self._tell(text, record)

    def _tell(self, text: str, record: RequestView | None) -> None:
        noise = "simulated text" if self.fleet.engine.kind == "simulated" else "random weights"
        self.terminal.data(f"answer ({noise}): {text!r}")
        if record is None:
            self.terminal.say("The router's record of it has not arrived yet: pdctl requests")
            return
        if record.prefill:
            self.terminal.data(
                f"prefilled on {record.prefill}, decoded on {record.decode}: "
                f"{figures.count(record.remote_tokens)} prompt tokens handed over as "
                f"{figures.size(record.kv_bytes)} of KV, TTFT {figures.ms(record.ttft_ms)}"
            )
        else:
            why = record.path_reason or "no handoff took place"
            self.terminal.data(f"answered whole by {record.decode}: {why}")
        self.terminal.data("")
        self.terminal.data("\n".join(waterfall(self.terminal, record)))

    def _urls(self, served: Served) -> None:
        router = served.router_url.rstrip("/")
        other = f" --url {served.admin_url}" if ":8080" not in served.admin_url else ""
        self.terminal.data(f"\nweb console   {served.admin_url}")
        self.terminal.data(f"admin API     {served.admin_url}/docs")
        self.terminal.data(f"OpenAI API    {router}/v1 (model {self.fleet.served_name})")
        self.terminal.data(f"terminal      pdctl tui{other}")
        self.terminal.data(
            f"try           curl {router}/v1/completions -H 'Content-Type: application/json' "
            f'-d \'{{"model": "{self.fleet.served_name}", "prompt": "Hello", "max_tokens": 16}}\''
        )


async def stream(url: str, body: dict[str, Any]) -> tuple[str, str]:
    """One streamed chat completion: its text, and the id that the router gave the request."""
    import httpx2

    async with httpx2.AsyncClient(timeout=ANSWER_S, trust_env=False) as http:
        try:
            async with http.stream("POST", url, json=body) as answer:
                if answer.status_code != 200:
                    said = (await answer.aread()).decode("utf-8", "replace")[:400]
                    raise DemoError(f"The router answered {answer.status_code}: {said}")
                pieces = [_piece(line) async for line in answer.aiter_lines()]
                return "".join(pieces), answer.headers.get("x-request-id", "")
        except httpx2.TransportError as error:
            raise DemoError(f"The router did not answer: {error!r}.") from error


def _piece(line: str) -> str:
    """The text in one line of the stream; an error event ends the demo."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return ""
    event = json.loads(data)
    if "error" in event:
        raise DemoError(f"The stream ended with an error: {event['error']}")
    return "".join(one.get("delta", {}).get("content") or "" for one in event.get("choices", ()))


async def _record(client: AdminClient, id_: str) -> RequestView | None:
    """The router's record, once the KV bytes of its handoff are known (or time is up)."""
    from pdctl.client.errors import NotFound

    found: RequestView | None = None
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        try:
            if id_:
                found = await client.request(id_)
            else:
                found = next(iter((await client.requests(limit=1)).items), None)
        except NotFound:
            found = None
        if found is not None and (found.kv_bytes is not None or not found.prefill):
            return found
        await asyncio.sleep(LOOK_S)
    return found


def _whole(fleet: FleetView) -> bool:
    """Every pool at its size: /readyz is content with one path."""
    return all(pool.ready >= pool.desired for pool in fleet.pools)


def _why(one: InstanceView) -> str:
    ended = one.first_failure or one.exit
    parts = [f"{one.id} could not be started: {one.message or one.reason}."]
    if ended is not None:
        parts += [f"It said: {ended.first_error}"] if ended.first_error else []
        parts += [f"  {line}" for line in ended.last_lines[-8:]]
    return "\n".join(parts)


def _late(fleet: FleetView) -> str:
    states = ", ".join(f"{one.id} is {one.phase}" for one in fleet.instances)
    return f"The fleet was not ready after {READY_S:.0f} s: {states or 'no instance was planned'}."
