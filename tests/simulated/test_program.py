"""The engine as a program: start lines, a handoff across processes, drain, crash, orphaned core."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import psutil
import pytest
import pytest_asyncio

from pdctl.shim import segments
from tests.simulated.talk import COMPLETIONS, Client, until

PROMPT = "once upon a time " * 30
BACKEND = Path(__file__).parents[2] / "backend"


class Program:
    """One running `python -m pdctl.simulated`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.port, self.side_channel_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{self.port}.log"
        ports = ("--port", str(self.port), "--side-channel-port", str(self.side_channel_port))
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pdctl.simulated", *ports, *flags],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(BACKEND)},
            )

    @property
    def text(self) -> str:
        """The log so far."""
        return self.log.read_bytes().decode()

    async def ready(self) -> None:
        """Wait until it serves."""
        await until(lambda: "Application startup complete" in self.text)

    async def ended(self) -> int:
        """Wait for the end; the exit code."""
        await until(lambda: self.process.poll() is not None)
        return int(self.process.returncode)


Programs = Callable[..., Awaitable[Program]]


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest_asyncio.fixture
async def programs(tmp_path: Path) -> AsyncIterator[Programs]:
    """Starts programs that end with the test."""
    started: list[Program] = []

    async def start(*flags: str, ready: bool = True) -> Program:
        program = Program(tmp_path, *flags)
        started.append(program)
        if ready:
            await program.ready()
        return program

    yield start
    for program in started:
        program.process.kill()
        program.process.wait()


async def test_two_processes_hand_over(programs: Programs, client: Client) -> None:
    prefill, decode = await asyncio.gather(
        programs("--role", "prefill"), programs("--role", "decode")
    )
    alone = await client.post(prefill.url, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 12})
    params = await client.prefill(prefill.url, PROMPT)
    assert params["remote_port"] == prefill.side_channel_port
    handed = await client.decode(decode.url, PROMPT, params, max_tokens=12)
    assert handed.text == alone.text
    again = await client.decode(decode.url, PROMPT, params, max_tokens=12)
    assert "▒" in again.text
    seen = await client.metrics(prefill.url)
    assert seen["vllm:nixl_num_notifications_after_expiry_total"] == 1
    assert "Potentially invalid KV blocks" in prefill.text
    prefill.process.kill()
    await prefill.ended()
    fresh = {**params, "remote_request_id": "x"}
    assert (await client.decode(decode.url, PROMPT, fresh)).status == 500


async def test_the_start_lines_are_vllms_and_say_simulated(programs: Programs) -> None:
    program = await programs("--startup-delay", "0.3", "--role", "prefill")
    pid = program.process.pid
    assert f"(APIServer pid={pid}) INFO " in program.text
    for phrase in (
        "Resolved architecture",
        "Initializing a V1 LLM engine",
        "Starting to load model",
        "\rLoading safetensors checkpoint shards:  50% Completed | 2/4",
        "Loading weights took 0.30 seconds",
        "Model loading took 0.0 GiB memory and 0.300000 seconds",
        "Registering KV_Caches",
        "init engine (profile, create kv cache, warmup model) took",
        "KV cache size: 524,288 tokens",
        "Maximum concurrency for 8,192 tokens per request: 64.00x",
        f"Starting vLLM server on {program.url}",
        "Application startup complete",
    ):
        assert phrase in program.text
    assert all("simulated" in line for line in program.text.splitlines() if line)


async def test_the_port_answers_after_loading_and_loading_can_be_stopped(
    programs: Programs, client: Client
) -> None:
    program = await programs("--startup-delay", "30", ready=False)
    await until(lambda: "Starting to load" in program.text)
    with pytest.raises(aiohttp.ClientConnectorError):
        await client.post(program.url, COMPLETIONS, {})
    program.process.send_signal(signal.SIGTERM)
    assert await program.ended() == 0


@pytest.mark.parametrize("taken", ["--port", "--side-channel-port"])
async def test_a_taken_port_ends_the_program(programs: Programs, taken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = await programs(taken, str(listener.getsockname()[1]), ready=False)
        assert await program.ended() == 1
    assert "ddress already in use" in program.text
    assert "Traceback" not in program.text


async def test_a_drain_finishes_what_runs_and_aborts_what_comes(
    programs: Programs, client: Client
) -> None:
    program = await programs("--shutdown-timeout", "20", "--mean-output-tokens", "0")
    body = {"prompt": PROMPT, "max_tokens": 120}
    running = asyncio.ensure_future(client.post(program.url, COMPLETIONS, body))
    await asyncio.sleep(0)
    seen: dict[str, float] = {}
    while not seen.get("vllm:num_requests_running"):
        seen = await client.metrics(program.url)
    program.process.send_signal(signal.SIGTERM)
    await until(lambda: "mode=drain" in program.text)
    late = await client.post(program.url, COMPLETIONS, body)
    assert late.status == 200
    assert (late.text, late.body["choices"][0]["finish_reason"]) == ("", "abort")
    async with client.session.get(program.url + "/health") as response:
        assert response.status == 200
    assert (await running).body["usage"]["completion_tokens"] == 120
    assert await program.ended() == 0


async def test_a_drain_waits_for_blocks_that_nobody_pulled(
    programs: Programs, client: Client
) -> None:
    program = await programs("--shutdown-timeout", "20", "--kv-lease-duration", "1")
    await client.prefill(program.url, PROMPT)
    program.process.send_signal(signal.SIGTERM)
    assert await program.ended() == 0
    assert "Releasing expired KV blocks" in program.text


async def test_without_a_timeout_requests_are_cut(programs: Programs, client: Client) -> None:
    program = await programs("--mean-output-tokens", "0")
    body = {"prompt": PROMPT, "max_tokens": 4000}
    running = asyncio.ensure_future(client.post(program.url, COMPLETIONS, body))
    seen: dict[str, float] = {}
    while not seen.get("vllm:num_requests_running"):
        seen = await client.metrics(program.url)
    program.process.send_signal(signal.SIGTERM)
    assert await program.ended() == 0
    with pytest.raises(aiohttp.ClientError):
        await running


async def test_the_exit_fault_ends_the_process(programs: Programs, client: Client) -> None:
    program = await programs()
    with contextlib.suppress(aiohttp.ClientError):
        await client.post(program.url, "/simulated/faults", {"exit_code": 7})
    assert await program.ended() == 7


def below(program: Program) -> tuple[psutil.Process, psutil.Process, Path]:
    """Its EngineCore, its Worker and the shared memory that they map."""
    (core,) = psutil.Process(program.process.pid).children()
    (worker,) = core.children()
    assert core.cmdline()[0].endswith("::EngineCore")
    assert worker.cmdline()[0].endswith("::Worker")
    assert f"(EngineCore pid={core.pid})" in program.text
    assert f"(Worker pid={worker.pid})" in program.text
    (segment,) = {name for name, _ in segments.seen({worker.pid}) & segments.seen({core.pid})}
    return core, worker, Path("/dev/shm", segment)


async def test_a_killed_parent_leaves_its_family_and_its_memory(programs: Programs) -> None:
    program = await programs("--with-engine-core")
    core, worker, segment = below(program)
    program.process.kill()
    await program.ended()
    try:
        assert core.ppid() != program.process.pid
        assert worker.ppid() == core.pid
        assert segment.exists()
    finally:
        core.kill()
        segment.unlink()
    await until(lambda: not worker.is_running())


@pytest.mark.parametrize("victim", ["core", "worker"])
async def test_a_killed_part_ends_the_rest(programs: Programs, victim: str) -> None:
    program = await programs("--with-engine-core")
    core, worker, segment = below(program)
    (core if victim == "core" else worker).kill()
    assert await program.ended() == 0
    await until(lambda: not core.is_running() and not worker.is_running())
    assert not segment.exists()


async def test_a_stopped_program_leaves_nothing(programs: Programs) -> None:
    program = await programs("--with-engine-core")
    core, worker, segment = below(program)
    program.process.send_signal(signal.SIGTERM)
    assert await program.ended() == 0
    await until(lambda: not core.is_running() and not worker.is_running())
    assert not segment.exists()
